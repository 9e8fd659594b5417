#!/usr/bin/env bash
# calibrate writes a profile that predict, plan and validate take; what it cannot conclude it says in one line.
set -euo pipefail
program=${SPPLAN:?run this test through ctest}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
profile=$folder/here.json
fail() { echo "$1"; exit 1; }

if ! "$program" --version | grep -q gsl; then
  status=0
  "$program" calibrate --max-spread 0 -o "$profile" 2>"$folder/stderr" || status=$?
  [ "$status" = 6 ] && [ ! -e "$profile" ] || fail "without GSL: exit $status"
  echo "skipped: built without GSL"
  exit 77
fi
"$program" calibrate --max-spread 0 -o "$profile" >"$folder/text"
grep -q "use it as --cluster $profile" "$folder/text" || fail "no hint at the use"
job="--cluster $profile --model gpt2 --seq 1k --gpus 2"
"$program" predict $job --framework spplan --dtype fp32 --json >"$folder/predict.json"
grep -q '"step_s"' "$folder/predict.json" || fail "predict does not use the profile"
"$program" plan $job -q >/dev/null
"$program" calibrate -q --max-spread 0 --ranks 1 -o "$folder/one.json" >"$folder/quiet"
[ ! -s "$folder/quiet" ] || fail "-q prints"

one_line() { # EXIT WORDS COMMAND...
  local expected=$1 words=$2 status=0
  shift 2
  "$program" "$@" >"$folder/stdout" 2>"$folder/stderr" || status=$?
  [ "$status" = "$expected" ] || fail "$*: exit $status, expected $expected: $(cat "$folder/stderr")"
  [ "$(wc -l <"$folder/stderr")" = 1 ] && grep -q "^spplan: .*$words" "$folder/stderr" ||
    fail "$*: $(cat "$folder/stderr")"
}
one_line 5 "differ by" calibrate --max-spread 0.000001 -o "$folder/never.json"
[ ! -e "$folder/never.json" ] || fail "a refused profile was written"
one_line 2 "profile" predict $job --gpu h100-80gb
one_line 2 "ranks" calibrate --ranks 0
sed 's/"launch_us": [0-9][0-9.e+-]*/"launch_us": "x"/' "$profile" >"$folder/bad.json"
one_line 3 "calib.memory.launch_us" predict --cluster "$folder/bad.json" --model gpt2 --seq 1k --gpus 2
sed 's/"device"/"devise"/' "$profile" >"$folder/bad.json"
one_line 3 "device" predict --cluster "$folder/bad.json" --model gpt2 --seq 1k --gpus 2
echo "calibrate: a profile, its uses and its refusals"
