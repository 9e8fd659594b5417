#!/usr/bin/env bash
# The engine on emulated devices over exec/backend_nccl.c and the stand-in for NCCL, with processes as ranks.
set -euo pipefail
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
program=$(find "$SPP_BUILD_DIR" -name test_exec_nccl_simt -type f -perm -u+x | head -1)
[ -n "$program" ] || { echo "skipped: built without C++ or MPI"; exit 77; }
timeout 300 mpirun -n 4 "$program" >/dev/null || { status=$?; echo "failed or skipped"; exit "$status"; }
echo "training over NCCL's rules: passed on 4 ranks"
