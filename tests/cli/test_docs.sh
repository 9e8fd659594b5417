#!/usr/bin/env bash
# Runs every "$ spplan ..." line of README.md and docs/*.md: it must exit with 0, or with N where the line ends in "# exit N".
# With SPPLAN_UPDATE_GOLDEN=1 the output shown under such a line in README.md is written anew.
set -euo pipefail
root=${SPP_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
program=${SPPLAN:?run this test through ctest}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export COLUMNS=100 LC_ALL=C.UTF-8 HOME=/nonexistent
unset NO_COLOR SPPLAN_GPU SPPLAN_CONFIG_DIR XDG_CONFIG_HOME

# Run one line in the shell, with spplan meaning the program under test; prints its output and returns its status.
run() { (cd "$folder" && spplan() { "$program" "$@"; } && eval "$1" 2>"$folder/stderr"); }

bad=0 count=0
for document in "$root/README.md" "$root"/docs/*.md; do
  [ -f "$document" ] || continue
  while IFS= read -r line; do
    want=0
    [[ $line =~ \#\ exit\ ([0-9]+)$ ]] && want=${BASH_REMATCH[1]}
    status=0
    run "${line#\$ }" >"$folder/stdout" || status=$?
    count=$((count + 1))
    if [ "$status" != "$want" ]; then
      echo "${document##*/}: $line: exit status $status, expected $want: $(cat "$folder/stderr")"
      tail -20 "$folder/stdout"
      bad=1
    fi
  done < <(grep -E '^\$ spplan( |$)' "$document" || true)
done
[ "$count" -gt 0 ] || { echo "no command line found in the documents"; bad=1; }

if [ "${SPPLAN_UPDATE_GOLDEN:-}" = 1 ] && [ -f "$root/README.md" ]; then
  shown=0
  while IFS= read -r line; do
    case $line in
      '$ spplan'*) printf '%s\n' "$line"; run "${line#\$ }" || true; shown=1; continue ;;
      '```'*) shown=0 ;;
    esac
    [ "$shown" = 1 ] || printf '%s\n' "$line"
  done <"$root/README.md" >"$folder/README.md"
  cp "$folder/README.md" "$root/README.md"
fi
[ "$bad" = 0 ] && echo "$count command lines ran"
exit "$bad"
