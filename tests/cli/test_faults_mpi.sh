#!/usr/bin/env bash
# What goes wrong around ranks ends in one line and exit 2, 5 or 6, within seconds, and leaves no process behind.
set -euo pipefail
program=${SPPLAN:?run this test through ctest}
command -v pgrep >/dev/null || { echo "skipped: no pgrep"; exit 77; }
folder=$(mktemp -d)
copy=$folder/spplan-$$ # a name that no other process has
trap 'rm -rf "$folder"' EXIT
cp "$program" "$copy"
fail() { echo "$1"; exit 1; }
left() { pgrep -f "$copy" || true; }

ends() { # EXIT WORDS COMMAND...: exit status and one line with these words
  local expected=$1 words=$2 status=0
  shift 2
  timeout 100 "$@" >"$folder/stdout" 2>"$folder/stderr" || status=$?
  [ "$status" = "$expected" ] || fail "$*: exit $status, expected $expected: $(cat "$folder/stderr")"
  [ "$(wc -l <"$folder/stderr")" = 1 ] && grep -q "^spplan: .*$words" "$folder/stderr" ||
    fail "$*: $(cat "$folder/stderr")"
  [ -z "$(left)" ] || fail "$*: left a process behind"
}
one=(validate --dp 2 --steps 1)
if [ -c /dev/full ]; then
  ends 6 "write" "$copy" "${one[@]}" -o /dev/full
  ends 6 "write" "$copy" "${one[@]}" --junit /dev/full
  ends 6 "write" sh -c 'exec "$@" >/dev/full' sh "$copy" "${one[@]}"
fi
ends 3 "no folder" "$copy" "${one[@]}" --junit "$folder/none/here.xml"
ends 2 "ranks" "$copy" validate --dp 1024
ends 2 "256" "$copy" validate --ranks 100000
ends 2 "ranks\|GPUs\|degrees" "$copy" validate --tp 2 --ranks 3
ends 2 "head" "$copy" validate --ulysses 3 --seq 96
ends 2 "head" "$copy" validate --tp 16
"$copy" --version | grep -q mpi || { echo "faults without MPI: one line each"; exit 0; }
ends 6 "mpirun" env PATH=/nonexistent "$copy" "${one[@]}" --backend mpi
command -v mpirun >/dev/null || { echo "faults without mpirun: one line each"; exit 0; }
ends 2 "head" "$copy" validate --tp 16 --backend mpi

# The user's own job is too small for every case: nothing was run, which is no success. The launcher adds lines.
status=0
timeout 100 mpirun -n 2 "$copy" validate --tp 4 --backend mpi >"$folder/stdout" 2>"$folder/stderr" || status=$?
[ "$status" = 2 ] && [ "$(grep -c "^spplan: .*needs 4 ranks, the MPI job has 2" "$folder/stderr")" = 1 ] &&
  [ ! -s "$folder/stdout" ] || fail "a job of 2 ranks: exit $status: $(cat "$folder/stdout" "$folder/stderr")"

# An mpirun of another MPI: one that says so is not started, the processes of one that does not are each alone.
mkdir "$folder/bin"
launcher() { printf '#!/bin/sh\n%s\n' "$1" >"$folder/bin/mpirun"; chmod +x "$folder/bin/mpirun"; }
launcher 'echo "Open MPI"'
"$copy" list backends | grep -q "Open MPI" && launcher 'echo "HYDRA build details:"'
ends 6 "another MPI" env PATH="$folder/bin" "$copy" "${one[@]}" --backend mpi
for tool in sh orted; do # what a process of Open MPI that is alone starts
  ! path=$(command -v "$tool") || ln -s "$path" "$folder/bin/$tool"
done
launcher '[ "$1" = --version ] || { shift 2; "$@"; exec "$@"; }'
ends 6 "another MPI" env PATH="$folder/bin" "$copy" "${one[@]}" --backend mpi
ends 6 "another MPI" env PMI_SIZE=2 PMI_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 \
  OMPI_MCA_plm_rsh_agent=sh "$copy" "${one[@]}" --backend mpi

long=(validate --suite time --backend mpi --steps 16)
begin() { # starts a long run and waits until its ranks are there
  timeout 100 "$copy" "${long[@]}" >"$folder/stdout" 2>"$folder/stderr" &
  job=$!
  for _ in $(seq 200); do
    [ "$(pgrep -fc "$copy ${long[*]}")" -ge 6 ] && break
    sleep 0.1
  done
  sleep 0.5
}
gone() {
  for _ in $(seq 150); do
    [ -z "$(left)" ] && return
    sleep 0.1
  done
  fail "$1: processes left behind"
}
begin
kill -9 "$(pgrep -nf "$copy ${long[*]}")"
status=0
wait "$job" || status=$?
[ "$status" = 5 ] && [ "$(wc -l <"$folder/stderr")" = 1 ] || fail "a killed rank: exit $status: $(cat "$folder/stderr")"
gone "a killed rank"
begin
kill -9 "$(pgrep -of "^$copy ${long[*]}")" # the command that started mpirun
wait "$job" || true
gone "a killed command"
# Ctrl-C reaches every process of the terminal, while ranks start, too.
set -m # a process group of their own, and SIGINT not ignored
for seconds in 0.2 0.5 0.8; do
  "$copy" "${long[@]}" -o "$folder/answer" >"$folder/stdout" 2>"$folder/stderr" &
  job=$!
  sleep "$seconds"
  kill -INT -- "-$job"
  status=0
  wait "$job" || status=$?
  [ "$status" = 130 ] && [ "$(wc -l <"$folder/stderr")" = 1 ] && [ ! -e "$folder/answer" ] ||
    fail "Ctrl-C: exit $status: $(cat "$folder/stderr")"
  gone "Ctrl-C"
done
# So does the end that a supervisor asks for. Open MPI keeps files of a running job below TMPDIR.
export TMPDIR=$folder/tmp
mkdir "$TMPDIR"
for seconds in 0.03 0.05 0.08 0.2 0.8; do
  "$copy" "${long[@]}" -o "$folder/answer" >"$folder/stdout" 2>"$folder/stderr" &
  job=$!
  sleep "$seconds"
  kill -TERM -- "-$job"
  status=0
  wait "$job" || status=$?
  [ "$status" = 143 ] && [ ! -e "$folder/answer" ] || fail "SIGTERM: exit $status: $(cat "$folder/stderr")"
  gone "SIGTERM"
  [ -z "$(ls -A "$TMPDIR")" ] || fail "SIGTERM after $seconds s: left $(find "$TMPDIR" | head -3)"
done
set +m
echo "faults: one line each, no process left"
