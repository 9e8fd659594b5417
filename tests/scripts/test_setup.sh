#!/usr/bin/env bash
# scripts/setup calls apt only for what is missing, says what it does in one line, and goes on without what is
# optional. The machine is played by stubs: dpkg-query knows the packages listed in a file, apt-get adds to it.
set -euo pipefail
setup=$SPP_SOURCE_DIR/scripts/setup
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
export STUB=$work
stub() { printf '#!/bin/bash\n%s\n' "$2" >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
for tool in bash cat env dirname grep head mktemp rm tail xargs printf; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
stub dpkg-query 'grep -qxF "${@: -1}" "$STUB/installed" && echo -n installed'
stub apt-get 'echo "$*" >>"$STUB/calls"; [ -f "$STUB/broken" ] && { echo "E: no network"; exit 100; }
              case "$*" in *install*) for p; do case $p in -*|install|DPkg*) ;; *) echo "$p" >>"$STUB/installed" ;; esac; done ;; esac'
stub id 'echo "${STUB_UID:-0}"'

run() { rc=0; : >"$work/calls"; PATH=$work/bin "$work/bin/bash" "$setup" "$@" >"$work/out" 2>"$work/err" </dev/null || rc=$?; }
expect() { [ "$1" = "$2" ] || { echo "$3: '$1', expected '$2'"; cat "$work/err"; exit 1; }; }

run --list; cp "$work/out" "$work/all"
expect "$(grep -c . "$work/all")" 16 "packages"

cp "$work/all" "$work/installed"
run; expect "$rc" 0 "all there"; expect "$(cat "$work/calls")$(cat "$work/err")" "" "all there: calls and words"

grep -v jq "$work/all" >"$work/installed"
run; expect "$rc" 0 "one missing"
expect "$(grep -c . "$work/calls")" 1 "one missing: calls"
grep -q 'install.* jq$' "$work/calls" || { echo "jq was not asked for: $(cat "$work/calls")"; exit 1; }
expect "$(cat "$work/err")" "spplan: installing jq" "one missing: words"
run; expect "$rc" 0 "the second time"; expect "$(cat "$work/calls")" "" "the second time: calls"

: >"$work/installed"; : >"$work/broken"
run; expect "$rc" 6 "nothing there and no network"
expect "$(grep -c . "$work/err")" 2 "lines of words"
grep -q 'spplan: cannot install cmake .*: E: no network: run ' "$work/err" || { cat "$work/err"; exit 1; }

STUB_UID=1000 run; expect "$rc" 6 "no root"
grep -q 'no root and no sudo' "$work/err" || { cat "$work/err"; exit 1; }
expect "$(cat "$work/calls")" "" "no root: calls"

for tool in cmake ninja cc pkg-config; do stub $tool 'exit 0'; done
STUB_UID=1000 run; expect "$rc" 0 "no root, but the tools are there"
grep -q 'going on without' "$work/err" || { cat "$work/err"; exit 1; }

rm "$work/bin/apt-get"; run; expect "$rc" 0 "no apt, but the tools are there"
rm "$work/bin/cmake"; run; expect "$rc" 6 "no apt and no tools"
grep -q '^spplan: cannot install packages here: no apt-get: ' "$work/err" || { cat "$work/err"; exit 1; }
echo "setup: every case as expected"
