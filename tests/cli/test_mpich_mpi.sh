#!/usr/bin/env bash
# The same program over MPICH, where that stands beside the MPI that spplan was built with: it finds the launcher
# of its own, sends the same bytes and computes the same bits.
set -euo pipefail
program=$(find "$SPP_BUILD_DIR" -name spplan_mpich -type f -perm -u+x | head -1)
[ -n "$program" ] || { echo "skipped: no MPICH beside the MPI of this build"; exit 77; }
command -v mpiexec.hydra >/dev/null || command -v mpirun.mpich >/dev/null || { echo "skipped: no launcher of MPICH"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1"; exit 1; }
"$program" list backends | grep -q MPICH || fail "$("$program" list backends)"

numbers() { grep -E '"(weights_digest|measured_bytes|measured_sent_bytes|measured_messages|loss)"' "$1"; }
timeout 120 "$program" validate --backend mpi --suite quick --steps 2 --json -o "$folder/mpich.json" || fail "quick over MPICH: exit $?"
timeout 120 "$program" validate --backend self --suite quick --steps 2 --json -o "$folder/self.json"
[ "$(numbers "$folder/mpich.json")" = "$(numbers "$folder/self.json")" ] || fail "MPICH and threads compute other bits"

long=(validate --suite time --backend mpi --steps 16)
timeout 100 "$program" "${long[@]}" >"$folder/stdout" 2>"$folder/stderr" &
job=$!
for _ in $(seq 200); do
  [ "$(pgrep -fc "$program ${long[*]}")" -ge 6 ] && break
  sleep 0.1
done
kill -9 "$(pgrep -nf "$program ${long[*]}")"
status=0
wait "$job" || status=$?
[ "$status" = 5 ] && [ "$(wc -l <"$folder/stderr")" = 1 ] && [ ! -s "$folder/stdout" ] ||
  fail "a killed rank: exit $status: $(cat "$folder/stderr" "$folder/stdout")"
for _ in $(seq 100); do
  [ -z "$(pgrep -f "$program ${long[*]}")" ] && break
  sleep 0.1
done
[ -z "$(pgrep -f "$program ${long[*]}")" ] || fail "a killed rank: processes left behind"
echo "MPICH: the same bits as threads, a killed rank is one line"
