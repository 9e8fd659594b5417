#!/usr/bin/env bash
# Folders see only the folders below them, and each foreign library is seen by the few files that wrap it.
#   base -> model -> planner -> {report, interop} -> tui -> cli      base -> kernels -> exec -> cli
# Usage: tests/layering.sh [root]. Prints each forbidden include and fails.
set -euo pipefail
root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root"
bad=0

# Each #include line of the C and CUDA files of one folder, as file:line:header.
includes_of() {
  [ -d "$1" ] || return 0
  find "$1" -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 -r grep -HnoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^>"]+' |
    sed -E 's/^([^:]+:[0-9]+):.*[<"]/\1:/' || true
}

# allow FOLDER SEEN...: our headers included by FOLDER must be of FOLDER or SEEN.
allow() {
  local folder=$1 seen; shift
  seen="$folder $*"
  while IFS=: read -r file line header; do
    case $header in
      base/*|model/*|planner/*|report/*|interop/*|kernels/*|exec/*|tui/*|cli/*|tests/*)
        case " $seen " in *" ${header%%/*} "*) ;; *)
          echo "$file:$line: $folder/ must not include $header"; bad=1 ;; esac ;;
    esac
  done < <(includes_of "$folder")
}

# only PATTERN FILES-REGEX: headers that match PATTERN may be included by files that match FILES-REGEX only.
only() {
  local folder
  for folder in base model planner report interop kernels exec tui cli; do
    while IFS=: read -r file line header; do
      if [[ $header =~ $1 ]] && ! [[ $file =~ $2 ]]; then
        echo "$file:$line: $header may be included only by $2"; bad=1
      fi
    done < <(includes_of "$folder")
  done
}

# plain FOLDER: a quoted include names its folder, so that only the root is on the include path.
plain() {
  [ -d "$1" ] || return 0
  if find "$1" -type f -name '*.[ch]' -print0 | xargs -0 -r grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^/"]+"'; then
    echo "$1/: quoted includes carry the folder"; bad=1
  fi
}

allow base
allow model base
allow planner base model
allow report base model planner
allow interop base model planner
allow kernels base
allow exec base model kernels
allow tui base model planner report interop
allow cli base model planner report interop kernels exec tui
only '(^|/)cJSON\.h$' '^base/json\.c$'
only '^gsl/' '^exec/(calib|fit)[^/]*\.c$'
only '^yaml\.h$' '^interop/yaml[^/]*\.c$'
only '^mpi\.h$' '^exec/backend_mpi[^/]*\.c$'
only '^nccl\.h$' '^exec/backend_nccl'
only '^(cuda|cublas|cudnn)' '^(kernels/cuda/|exec/backend_nccl)'
only '^cblas' '^kernels/gemm\.c$'
only '^n?curses' '^tui/'
for folder in base model planner report interop kernels exec tui cli; do plain "$folder"; done

[ "$bad" = 0 ] && echo "layering holds"
exit "$bad"
