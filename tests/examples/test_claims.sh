#!/usr/bin/env bash
# Every claim of examples/claims is settled, and a verdict that does not hold would be noticed.
set -euo pipefail
command -v jq >/dev/null || { echo "jq is absent"; exit 77; }
[ -x "${SPPLAN:-}" ] || { echo "no program"; exit 77; }
export SPPLAN
cd "$SPP_SOURCE_DIR/examples/claims"
out=$(./run) || { echo "$out"; exit 1; }
echo "$out" | tail -1
[ "$(echo "$out" | grep -c '^verdict ')" = "$(ls [0-9]*.sh | wc -l)" ]
if bash -c '. ./lib.sh; refuted "1 == 2" never' >/dev/null 2>&1; then
  echo "a false verdict went unnoticed"
  exit 1
fi
