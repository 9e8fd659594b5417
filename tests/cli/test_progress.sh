#!/usr/bin/env bash
# A long search draws a bar where the standard error is a terminal, wipes it when it is done, and says nothing
# anywhere else. Skipped (77) without script(1).
set -euo pipefail
program=${SPPLAN:?run this test through ctest}
command -v script >/dev/null || { echo "no script(1) here"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=$folder LC_ALL=C.UTF-8
cd "$folder"

# on_terminal ARGUMENTS...: what it writes on a terminal as standard error
on_terminal() { script -qec "'$program' $* 2>&1 >/dev/null" /dev/null; }
long="plan --model deepseek-v3 --gpus 512 --seq 32k --threads 1"
on_terminal "$long" >bar || { cat bar; exit 1; }
grep -q 'searching .* %' bar || { echo "no bar:"; od -c bar | head; exit 1; }
# the last thing written wipes the line
[ "$(tail -c 5 bar | od -An -c | tr -d ' ')" = '\r033[K' ] || [ "$(tail -c 4 bar | od -An -c | tr -d ' ')" = '\r033[K' ] ||
  { echo "the bar stays:"; od -c bar | tail -3; exit 1; }
on_terminal validate --ulysses 2 --steps 16 -q >quiet
[ ! -s quiet ] || { echo "a bar in spite of -q"; exit 1; }
"$program" validate --ulysses 2 --steps 16 >/dev/null 2>file
[ ! -s file ] || { echo "a bar in a file"; exit 1; }
on_terminal validate --ulysses 2 --steps 16 >bar
grep -q 'validating ' bar || { echo "validate shows no bar:"; od -c bar | head; exit 1; }
on_terminal plan --model qwen7b --seq 32k --gpus 8 --framework ms-swift >quick
[ ! -s quick ] || { echo "a bar for what is quick"; exit 1; }
echo "bars come and go"
