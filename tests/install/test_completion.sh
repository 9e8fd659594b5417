#!/usr/bin/env bash
# The bash completion offers what the program knows: commands, options, and the values of an option.
set -euo pipefail
[ -n "${SPPLAN:-}" ] || { echo "skipped: no program was built"; exit 77; }
spplan() { "$SPPLAN" "$@"; }
source "$SPP_SOURCE_DIR/cmake/completions/spplan.bash"

# offers WORD... : completes the last word of the line and prints the offers on one line.
offers() {
  COMP_WORDS=(spplan "$@")
  COMP_CWORD=$#
  _spplan
  echo "${COMPREPLY[*]}"
}
expect() { [ "$1" = "$2" ] || { echo "'$3' offers '$1', expected '$2'"; exit 1; }; }
has() { case " $1 " in *" $2 "*) ;; *) echo "'$3' offers '$1', which lacks $2"; exit 1 ;; esac; }

expect "$(offers pla)" plan "spplan pla"
has "$(offers --gp)" --gpus "spplan --gp"
has "$(offers predict --micro)" --micro-batch "spplan predict --micro"
has "$(offers --gpu h100)" h100-80gb "spplan --gpu h100"
has "$(offers --gpu = h100)" h100-80gb "spplan --gpu=h100"
has "$(offers predict --sp-kind u)" ulysses "spplan predict --sp-kind u"
expect "$(offers --seq 3)" "" "spplan --seq 3"
expect "$(offers --no-such x)" "" "spplan --no-such x"
echo "completion: every case as expected"
