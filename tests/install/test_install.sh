#!/usr/bin/env bash
# An installed libspplan is usable from outside, through pkg-config and through find_package, wherever the
# installation is moved.
set -euo pipefail
cache=$SPP_BUILD_DIR/CMakeCache.txt
value() { sed -n "s/^$1:[A-Z]*=//p" "$cache"; }
[ -z "$(value SPP_SANITIZE)" ] || { echo "skipped: a sanitizer build is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_into() { cmake --install "$SPP_BUILD_DIR" --prefix "$1" >"$work/install.log" || { cat "$work/install.log"; exit 1; }; }
install_into "$work/gone"
touch "$work/gone/share/theirs"
cmake -DMANIFEST="$SPP_BUILD_DIR/install_manifest.txt" -P "$SPP_SOURCE_DIR/cmake/uninstall.cmake"
left=$(cd "$work/gone" && find . -type f -o -path '*/spplan')
[ "$left" = ./share/theirs ] || { echo "uninstall left: $left"; exit 1; }
install_into "$work/first"
mv "$work/first" "$work/moved"
prefix=$work/moved

cat >"$work/outside.c" <<'END'
#include "base/units.h"
#include "base/version.h"

#include <inttypes.h>
#include <stdio.h>

int main(void) {
  int64_t bytes;
  struct spp_diag diag;
  if (spp_bytes_parse("80GiB", "size", &bytes, &diag) != SPP_OK) return 1;
  printf("%s %" PRId64 "\n", spp_version(), bytes);
  return 0;
}
END
expected="$(value CMAKE_PROJECT_VERSION) 85899345920" # 80 x 2^30

check() {
  [ "$2" = "$expected" ] || { echo "$1 printed '$2', expected '$expected'"; exit 1; }
  echo "$1: $2"
}

pc=$(dirname "$(find "$prefix" -name spplan.pc)")
cc=$(value CMAKE_C_COMPILER)
export PKG_CONFIG_PATH=$pc
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Werror "$work/outside.c" -o "$work/by-pkg-config" $(pkg-config --cflags --libs spplan)
check pkg-config "$("$work/by-pkg-config")"

mkdir "$work/outside"
cp "$work/outside.c" "$work/outside/"
cat >"$work/outside/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(outside C)
find_package(spplan 0.1 REQUIRED)
add_executable(outside outside.c)
target_link_libraries(outside spplan::spplan)
END
{ cmake -S "$work/outside" -B "$work/outside/build" -G "$(value CMAKE_GENERATOR)" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" &&
  cmake --build "$work/outside/build"; } >"$work/outside.log" 2>&1 || { cat "$work/outside.log"; exit 1; }
check find_package "$("$work/outside/build/outside")"

# Every installed header stands on its own.
find "$prefix/include/spplan" -name '*.h' | sort | while read -r header; do
  "$cc" -std=c11 -Wall -Werror -fsyntax-only -x c -I "$prefix/include/spplan" "$header" || { echo "$header does not stand alone"; exit 1; }
done
echo "headers stand alone"

if [ -x "$prefix/bin/spplan" ]; then
  "$prefix/bin/spplan" --version >"$work/version.txt"
  grep -qF "$(value CMAKE_PROJECT_VERSION)" "$work/version.txt" ||
    { echo "--version prints '$(head -1 "$work/version.txt")', without $(value CMAKE_PROJECT_VERSION)"; exit 1; }
  echo "program: $(head -1 "$work/version.txt")"
  grep -q '^\.TH SPPLAN 1 ' "$prefix/share/man/man1/spplan.1" || { echo "no manual page"; exit 1; }
fi
