#!/usr/bin/env bash
# scripts/spplan decides by scripts/fresh whether it must build: a change, a new file, a removed file and a moved
# tree all count; data and documents do not. The check is fast.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/scripts" "$work/tree/base" "$work/tree/cli" "$work/tree/cmake" "$work/tree/configs" "$work/tree/build"
cd "$work/tree"
cp "$SPP_SOURCE_DIR/scripts/fresh" scripts/
echo >CMakeLists.txt; echo >base/a.c; echo >cli/main.c

built() { printf '#!/bin/sh\n' >build/spplan; chmod +x build/spplan; pwd -P >build/.built; touch -d '+1 second' build/.built; }
expect() {
  local result=stale
  scripts/fresh && result=fresh
  [ "$result" = "$1" ] || { echo "$2: $result, expected $1"; exit 1; }
}
later() { touch -d '+2 seconds' "$@"; }

expect stale "nothing built"
built; expect fresh "just built"
later configs; expect fresh "data changed"
later base/a.c; expect stale "a source changed"
built; touch -d '1 hour ago' base/a.c; expect fresh "an older source"
echo >base/b.c; later base; expect stale "a source came"
touch -d '1 hour ago' base base/b.c; built; expect fresh "built again"
rm base/b.c; later base; expect stale "a source went"
touch -d '1 hour ago' base; built; later CMakeLists.txt; expect stale "the build changed"
touch -d '1 hour ago' CMakeLists.txt; built; rm build/spplan; expect stale "the program is gone"
built; mv "$work/tree" "$work/moved"; cd "$work/moved"; expect stale "the tree was moved"

start=$(date +%s%N)
for _ in 1 2 3 4 5; do (cd "$SPP_SOURCE_DIR" && scripts/fresh) || true; done
each_ms=$((($(date +%s%N) - start) / 5000000))
[ "$each_ms" -lt 100 ] || { echo "the check takes $each_ms ms"; exit 1; }
echo "fresh: every case as expected"
