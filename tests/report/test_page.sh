#!/usr/bin/env bash
# The report in other programs' eyes: xmllint finds it well-formed, and a browser needs no horizontal scrolling at 400 and 1280 pixels.
# Skipped (77) where there is neither.
set -euo pipefail
program=${SPPLAN:?run this test through ctest}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=$folder LC_ALL=C.UTF-8
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
lint=$(command -v xmllint || true)
[ -n "$browser$lint" ] || { echo "neither xmllint nor chromium here"; exit 77; }

"$program" report --model qwen7b --seq 32k --gpus 8 --threads 1 -o "$folder/one.html"
"$program" report --model qwen2.5-72b --seq 32k --gpus 64 --framework megatron-lm --tp 8 --pp 4 --threads 1 -o "$folder/two.html"
"$program" compare --model qwen7b --seq 64k --gpus 8 --threads 1 --svg -o "$folder/compare.svg"
"$program" sweep --model qwen7b --gpus 8 --vary seq=8k:64k:x2 --threads 1 --svg -o "$folder/sweep.svg"
[ -z "$lint" ] || "$lint" --noout "$folder"/*.html "$folder"/*.svg
[ -n "$browser" ] || { echo "no browser: widths not looked at"; exit 0; }

# A window has a least width; a frame has not.
for page in one two; do
  for width in 400 1280; do
    cat >"$folder/frame.html" <<HTML
<body style="margin:0"><iframe id="f" src="$page.html" style="border:0;width:${width}px;height:900px"></iframe><p id="p"></p>
<script>f.onload = () => { p.textContent = "width " + f.contentDocument.documentElement.scrollWidth + "."; }</script></body>
HTML
    dom=$("$browser" --headless --no-sandbox --disable-gpu --allow-file-access-from-files --user-data-dir="$folder/profile" \
      --virtual-time-budget=5000 --dump-dom "file://$folder/frame.html" 2>/dev/null) || { echo "the browser does not run here"; exit 77; }
    seen=$(grep -oE 'width [0-9]+\.' <<<"$dom" | grep -oE '[0-9]+' || true)
    [ -n "$seen" ] || { echo "$page at $width: the browser measured nothing"; exit 77; }
    [ "$seen" -le "$width" ] || { echo "$page.html at $width pixels is $seen wide"; exit 1; }
    echo "$page.html fits $width pixels"
  done
done
