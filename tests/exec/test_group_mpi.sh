#!/usr/bin/env bash
# The collectives' tests again, with processes of an MPI job as ranks.
set -euo pipefail
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
program=$(find "$SPP_BUILD_DIR" -name test_exec_group -type f -perm -u+x | head -1)
export SPPLAN_TEST_BACKEND=mpi
for ranks in 1 2 4; do
  timeout 120 mpirun -n "$ranks" "$program" >/dev/null || { status=$?; echo "failed or skipped on $ranks ranks"; exit "$status"; }
done
echo "collectives over MPI: passed on 1, 2 and 4 ranks"
