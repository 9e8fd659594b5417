#!/usr/bin/env bash
# validate --device and --backend nccl where no device can be used: one line that says why, exit 6.
set -euo pipefail
refused() { # STATUS WORDS ARGS...
  local want=$1 words=$2 status=0
  shift 2
  said=$("$SPPLAN" validate "$@" 2>&1 >/dev/null) || status=$?
  [ "$status" = "$want" ] || { echo "validate $*: exit $status, expected $want: $said"; exit 1; }
  [ "$(printf '%s\n' "$said" | wc -l)" = 1 ] || { echo "validate $*: more than a line: $said"; exit 1; }
  [[ $said == *"$words"* ]] || { echo "validate $*: no '$words' in: $said"; exit 1; }
}
refused 2 "did you mean" --device cdua
answer=$("$SPPLAN" validate --device cpu --ranks 1 --steps 1 --json)
[[ $answer == *'"device": "cpu"'* ]] || { echo "the answer does not say what the ranks worked on"; exit 1; }
if "$SPPLAN" list kernels --json | grep -A8 '"name": *"cuda"' | grep -q '"usable": *true'; then
  echo "a device is here: its absence is not tested"
  exit 0
fi
refused 6 "no device can be used" --device cuda
refused 6 "cuda" --device cuda --backend mpi --ranks 2
refused 6 "" --backend nccl --tp 2
echo "no device: told in a line"
