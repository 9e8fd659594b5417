#!/usr/bin/env bash
# The engine on emulated devices over exec/backend_nccl.c and the stand-in for NCCL, with processes as ranks.
set -euo pipefail
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
program=$(find "$SPP_BUILD_DIR" -name test_exec_nccl_simt -type f -perm -u+x | head -1)
[ -n "$program" ] || { echo "skipped: built without C++ or MPI"; exit 77; }
timeout 300 mpirun -n 4 "$program" >/dev/null || { status=$?; echo "failed or skipped"; exit "$status"; }
status=0
said=$(timeout 100 mpirun -n 4 "$program" fail 2>&1) || status=$?
[ "$status" != 0 ] && [ "$status" != 124 ] || { echo "ranks without memory: exit $status"; exit 1; }
grep -q "first rank: .*out of memory" <<<"$said" || { echo "ranks without memory: the first does not say why: $said"; exit 1; }
echo "training over NCCL's rules: passed on 4 ranks"
