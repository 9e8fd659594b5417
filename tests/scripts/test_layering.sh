#!/usr/bin/env bash
# The layering check finds each kind of forbidden include, and passes a tree without any.
set -euo pipefail
check=$SPP_SOURCE_DIR/tests/layering.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir base model planner report interop kernels exec tui cli kernels/cuda

# expect pass|fail FILE INCLUDE: a tree whose one file has this include.
expect() {
  printf '#include %s\n' "$3" >"$2"
  local result=pass
  bash "$check" "$work" >"$work/out.txt" || result=fail
  [ "$result" = "$1" ] || { echo "$2 with $3: $result, expected $1"; cat "$work/out.txt"; exit 1; }
  if [ "$1" = fail ]; then grep -q "^$2:1: " "$work/out.txt" || { echo "$2 is not named"; exit 1; }; fi
  rm "$2"
}

expect pass model/a.c '"base/num.h"'
expect pass model/a.c '<stdio.h>'
expect pass cli/a.c '"exec/ledger.h"'
expect pass exec/a.c '"model/arch.h"'
expect pass base/json.c '<cjson/cJSON.h>'
expect pass exec/backend_mpi.c '<mpi.h>'
expect pass kernels/cuda/a.cu '<cuda_runtime.h>'
expect pass tui/a.c '<ncurses.h>'
expect fail base/a.c '"model/arch.h"'
expect fail base/a.h '"model/arch.h"'
expect fail model/a.c '"planner/space.h"'
expect fail planner/a.c '"report/json.h"'
expect fail report/a.c '"interop/flags.h"'
expect fail interop/a.c '"report/json.h"'
expect fail kernels/a.c '"model/arch.h"'
expect fail kernels/cuda/a.cu '"model/arch.h"'
expect fail exec/a.c '"planner/space.h"'
expect fail tui/a.c '"exec/ledger.h"'
expect fail cli/a.c '"tests/expect.h"'
expect fail model/a.c '<cjson/cJSON.h>'
expect fail base/file.c '<cjson/cJSON.h>'
expect fail exec/a.c '<mpi.h>'
expect fail exec/a.c '<gsl/gsl_fit.h>'
expect fail cli/a.c '<ncurses.h>'
expect fail model/a.c '"arch.h"'
echo "layering check: every case as expected"
