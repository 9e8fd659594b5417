#!/usr/bin/env bash
# validate --backend mpi starts its own ranks, also where the environment says nothing, and inside a job it joins it.
set -euo pipefail
program=${SPPLAN:?run this test through ctest}
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
"$program" --version | grep -q mpi || { echo "skipped: built without MPI"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
case_line="--tp 2 --dp 2 --zero 1 --backend mpi --json"

env -i PATH="$PATH" HOME="$folder" "$program" validate $case_line -o "$folder/own.json"
timeout 120 mpirun -n 4 "$program" validate $case_line -o "$folder/joined.json"
for name in own joined; do
  grep -q '"passed": 1' "$folder/$name.json" || { echo "$name ranks: no passed case"; cat "$folder/$name.json"; exit 1; }
done
status=0
timeout 120 mpirun -n 2 "$program" validate $case_line >"$folder/few.json" || status=$?
[ "$status" = 2 ] && [ ! -s "$folder/few.json" ] || { echo "two ranks for four: exit $status"; exit 1; }
env -i PATH=/nonexistent "$program" validate $case_line 2>"$folder/stderr" && { echo "ran without mpirun"; exit 1; }
[ "$?" != 0 ] && grep -q mpirun "$folder/stderr"
echo "validate over MPI: own ranks, a job's ranks, too few ranks, no mpirun"
