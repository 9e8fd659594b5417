#!/usr/bin/env bash
# docs/accuracy.md says a cause for every run it lists as worst, and its tables are those of docs/accuracy.json.
set -euo pipefail
cd "${SPP_SOURCE_DIR:-$(dirname "$0")/../..}"
manual=docs/accuracy.md
command -v jq >/dev/null || { echo "no jq"; exit 77; }

# The lines between <!-- NAME: begin --> and <!-- NAME: end -->.
part() { awk -v name="$1" 'index($0, "<!-- " name ": end") { on = 0 } on; index($0, "<!-- " name ": begin") { on = 1 }' "$manual"; }
causes=$(awk '/^## /{ on = ($0 == "## Causes") } on && /^\| [a-z]/' "$manual" | cut -d'|' -f2)

bad=0
for what in memory time; do
  listed=$(part "worst-$what" | awk -F'|' '$2 ~ /-[0-9]+ $/ { print $2 }')
  [ "$(wc -w <<<"$listed")" = 10 ] || { echo "$manual lists $(wc -w <<<"$listed") runs as worst in $what, not ten"; bad=1; }
  for run in $listed; do
    grep -qw -- "$run" <<<"$causes" || { echo "$manual: no cause for $run ($what)"; bad=1; }
  done
  [ "$(jq -r ".worst.$what[].id" docs/accuracy.json | xargs)" = "$(xargs <<<"$listed")" ] || { echo "$manual: worst $what runs differ from docs/accuracy.json"; bad=1; }
done
now=$(jq -r '.less.time_median' docs/accuracy.json)
part goals | grep -qF "| time median | 7 | $now |" || { echo "$manual: time median is not $now"; bad=1; }
part assumptions | grep -qF "| as shipped | | | $now |" || { echo "$manual: the assumptions were not scored anew"; bad=1; }
[ "$(part assumptions | grep -c '^| ')" = $(($(jq length docs/assumptions.json) + 2)) ] || { echo "$manual: not every assumption is listed"; bad=1; }
exit $bad
