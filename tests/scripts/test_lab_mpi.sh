#!/usr/bin/env bash
# The lab: its refusals, and where root and namespaces are to be had a tiny one, whose interfaces must have carried
# what was predicted, and of which nothing may be left.
set -euo pipefail
cd "${SPP_SOURCE_DIR:?run this test through ctest}"
export SPPLAN=${SPPLAN:?run this test through ctest}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1"; exit 1; }
refuses() { # EXIT WORDS COMMAND...
  local expected=$1 words=$2 status=0
  shift 2
  "$@" >"$folder/out" 2>"$folder/err" || status=$?
  [ "$status" = "$expected" ] && tail -1 "$folder/err" | grep -q "^lab: .*$words" ||
    fail "$*: exit $status: $(cat "$folder/err")"
}
refuses 2 "2 to 8" scripts/lab --hosts 9
refuses 2 "unknown option" scripts/lab --host 2
refuses 2 "2 to 8" scripts/lab --hosts 2,16
refuses 2 "such as" scripts/lab --rates fast,
refuses 2 "1, 2, 4 and 8" scripts/lab --kv-heads 3
refuses 2 "1 to 99" scripts/lab --repeats 0
refuses 2 "20 to 19" scripts/lab --nice 20
refuses 6 "no program" env SPPLAN=/nonexistent scripts/lab
if [ "$(id -u)" != 0 ]; then
  refuses 6 "root" scripts/lab
  echo "skipped: no root"
  exit 77
fi
"$SPPLAN" --version | grep -q mpi || { echo "skipped: built without MPI"; exit 77; }
status=0
timeout 300 scripts/lab --tiny -o "$folder/kept" >"$folder/out" 2>"$folder/err" || status=$?
[ "$status" != 6 ] || { echo "skipped: $(tail -1 "$folder/err")"; exit 77; }
[ "$status" = 0 ] || fail "exit $status: $(cat "$folder/out" "$folder/err")"
grep -q "crossover measured" "$folder/out" && grep -q "TCP payload" "$folder/out" || fail "$(cat "$folder/out")"
share=$(awk -v p="$(getconf _NPROCESSORS_ONLN)" 'BEGIN { print p / 2 }')
grep -q "\"processors_per_node\": $share," "$folder/kept/net-2-1gbit.json" || fail "two hosts do not share the processors"
grep -q '"hosts": 2, "rate": "1gbit", "kv_heads": 8, "seq_tokens": 512, "repeats": 1' "$folder/kept/lab.json" ||
  fail "$(cat "$folder/kept/lab.json")"

# Ended from outside, it leaves no namespace, bridge or process.
spaces() { ip netns list | grep -c "^spl" || true; }
before=$(spaces)
scripts/lab --tiny >/dev/null 2>&1 &
lab=$!
for _ in $(seq 100); do
  [ "$(spaces)" -gt "$before" ] && break
  sleep 0.1
done
sleep 2
kill "$lab"
wait "$lab" || true
[ "$(spaces)" = "$before" ] || fail "a namespace is left"
[ -z "$(ip -o link show type bridge | grep "splb$((lab % 10000))" || true)" ] || fail "a bridge is left"
tail -1 "$folder/out"
