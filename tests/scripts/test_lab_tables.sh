#!/usr/bin/env bash
# The tables of the lab from samples whose answers are known. Ulysses over ring is 2 at 100 tokens and 1/2 at 400, so
# they are even at 200, the middle over the logarithm; predicted 4 and 1/2, so at 100 x 4^(2/3) = 252. One of three
# repeats has sqrt(2) at 100: even at 100 x 4^(1/3) = 159.
set -euo pipefail
cd "${SPP_SOURCE_DIR:?run this test through ctest}"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$1: $(cat "$folder/out")"; exit 1; }
samples() { # PAYLOAD of 1000 predicted bytes
  for repeat in 1 2 3; do
    at_100=2
    [ $repeat != 2 ] || at_100=1.41421356
    echo "4 1gbit 8 100 ulysses $repeat 4 $at_100 $1 1000"
    echo "4 1gbit 8 100 ring $repeat 1 1 $1 1000"
    echo "4 1gbit 8 400 ulysses $repeat 1 1 $1 1000"
    echo "4 1gbit 8 400 ring $repeat 2 2 $1 1000"
  done
}
tables() {
  status=0
  samples "$1" | awk -v idle=100 -v processors=2 -v json="$folder/lab.json" -f scripts/lab.awk >"$folder/out" || status=$?
}
tables 1010
[ "$status" = 0 ] || fail "exit $status"
grep -q "4  1gbit     8  ring to Ulysses at 200 (159-200 in 3 of 3) *ring to Ulysses at 252" "$folder/out" || fail "crossovers"
grep -q "100 .*2000.0 (1414.2-2000.0) 4000.0 .* ring *ring" "$folder/out" || fail "the row at 100 tokens"
grep -q "12120 *12000 *+1.00 %" "$folder/out" || fail "bytes"
grep -q "right in 2 of 2 rows" "$folder/out" || fail "verdict"
grep -q '"measured": {"from": "ring", "to": "ulysses", "seq_tokens": 200, "low_tokens": 159, "high_tokens": 200, "repeats_alike": 3}' \
  "$folder/lab.json" || fail "$(cat "$folder/lab.json")"
tables 1030
[ "$status" = 5 ] || fail "3 % more bytes than predicted: exit $status"
echo "the lab's tables say what its samples say"
