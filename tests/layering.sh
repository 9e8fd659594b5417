#!/usr/bin/env bash
# Folders see only the folders below them, and each foreign library is seen by the few files that wrap it.
#   base -> model -> planner -> {report, interop} -> tui -> cli      base -> kernels -> exec -> cli
# Usage: tests/layering.sh [root]. Prints each forbidden include and fails.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

folders=(base model planner report interop kernels exec tui cli)
declare -A seen=(
  [base]="base"
  [model]="base model"
  [planner]="base model planner"
  [report]="base model planner report"
  [interop]="base model planner interop"
  [kernels]="base kernels"
  [exec]="base model kernels exec"
  [tui]="base model planner report interop tui"
  [cli]="base model planner report interop kernels exec tui cli"
)

# Foreign headers, and the files that may include them.
foreign=('(^|/)cJSON\.h$' '^gsl/' '^yaml\.h$' '^mpi\.h$' '^nccl\.h$' '^(cuda|cublas|cudnn)' '^n?curses')
wrapper=('^base/json\.c$' '^exec/(calib|fit)[^/]*\.c$' '^interop/yaml[^/]*\.c$' '^exec/backend_mpi[^/]*\.c$'
         '^exec/backend_nccl' '^(kernels/cuda/|exec/backend_nccl)' '^tui/')

# Every #include of every folder, as file:line:quote:header.
includes() {
  find "${folders[@]}" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print0 2>/dev/null |
    xargs -0 -r grep -HnoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^>"]+' |
    sed -E 's/^([^:]+:[0-9]+):.*([<"])/\1:\2:/'
}

bad=0 checked=0
forbid() { echo "$1:$2: $3"; bad=1; }

while IFS=: read -r file line quote header; do
  checked=$((checked + 1))
  folder=${file%%/*} target=${header%%/*}
  if [ "$quote" = '"' ] && [ "$target" = "$header" ]; then
    forbid "$file" "$line" "\"$header\": quoted includes carry the folder"
  elif [[ " ${folders[*]} tests " == *" $target "* && " ${seen[$folder]} " != *" $target "* ]]; then
    forbid "$file" "$line" "$folder/ must not include $header"
  fi
  for i in "${!foreign[@]}"; do
    if [[ $header =~ ${foreign[i]} && ! $file =~ ${wrapper[i]} ]]; then
      forbid "$file" "$line" "$header may be included only by ${wrapper[i]}"
    fi
  done
done < <(includes || true)

[ "$checked" -gt 0 ] || { echo "no include found under $PWD"; exit 1; }
[ "$bad" = 0 ] && echo "layering holds: $checked includes"
exit "$bad"
