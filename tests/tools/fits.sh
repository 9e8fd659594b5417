#!/usr/bin/env bash
# configs/calib/data/fits.json is what fit_kernels prints: constants and standard errors within 2 % and a last digit.
# Usage: fits.sh FIT_KERNELS
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v jq >/dev/null || { echo "no jq"; exit 77; }
"$1" configs 2>/dev/null | jq -e --slurpfile stored configs/calib/data/fits.json '
  def near($a; $b): ($a == $b) or (($a | type) == "number" and ($b | type) == "number" and (($a - $b | fabs) <= 0.02 * ($b | fabs) + 2e-4));
  . as $now | [paths(scalars)] as $places |
  ($places == ($stored[0] | [paths(scalars)])) and
  all($places[]; . as $p | near($now | getpath($p); $stored[0] | getpath($p)))' >/dev/null ||
  { echo "configs/calib/data/fits.json is not what fit_kernels configs prints: write it anew"; exit 1; }
[ "$(jq '[.fits[].constants[] | select(.standard_error != null)] | length' configs/calib/data/fits.json)" -gt 50 ]
