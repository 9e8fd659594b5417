# Shared by the claims: run a job, read numbers from its JSON, print claim, prediction, verdict.
# Needs jq. SPPLAN names the program (default: scripts/spplan of this repository).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${SPPLAN:=$here/../../scripts/spplan}"
command -v jq >/dev/null || { echo "spplan: jq is absent: claims: install jq" >&2; exit 6; }

# ask EXPR ARGS...: the value of jq expression EXPR on the JSON of spplan ARGS. A job that does not fit (4) still answers.
ask() {
  local expr=$1 json status=0
  shift
  json=$("$SPPLAN" "$@" --json 2>/dev/null) || status=$?
  case $status in 0 | 4) ;; *) "$SPPLAN" "$@" >/dev/null; exit "$status" ;; esac
  jq -r "$expr" <<<"$json"
}
# rule ARGS...: the rule that refuses spplan ARGS, or "legal".
rule() {
  local json status=0
  json=$("$SPPLAN" "$@" --json 2>/dev/null) || status=$?
  if [ "$status" = 2 ]; then jq -r '.errors[0].rule' <<<"$json"; else echo legal; fi
}
true_that() { awk "BEGIN { exit !($1) }"; }

claim() { echo "claim       $*"; }
prediction() { echo "prediction  $*"; }
# verdict CONDITION WORDS...: "refuted" or "reproduced" with the reason; a condition that does not hold is a failure.
refuted() { settle refuted "$@"; }
reproduced() { settle reproduced "$@"; }
settle() {
  local word=$1 condition=$2
  shift 2
  if true_that "$condition"; then
    echo "verdict     $word: $*"
  else
    echo "verdict     UNSETTLED: expected $condition" >&2
    exit 5
  fi
}
