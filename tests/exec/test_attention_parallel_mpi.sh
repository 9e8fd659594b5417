#!/usr/bin/env bash
# Parallel attention again, with processes of an MPI job as ranks.
set -euo pipefail
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
program=$(find "$SPP_BUILD_DIR" -name test_exec_attention_parallel -type f -perm -u+x | head -1)
SPPLAN_TEST_BACKEND=mpi timeout 120 mpirun -n 4 "$program" >/dev/null || { status=$?; echo "failed or skipped"; exit "$status"; }
echo "parallel attention over MPI: passed on 4 ranks"
