#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "In ms-swift the user chooses Ulysses or ring"
job="predict --framework ms-swift --model qwen2.5-7b --seq 32k --gpus 8 --packing"
asked=$(rule $job --sp-kind ring --ring 8)
read -r ulysses ring <<<"$(ask '.layout.ulysses, .layout.ring' $job --sp 8 | xargs)"
prediction "--ring 8 is refused by the rule '$asked'; --sp 8 is Ulysses $ulysses x ring $ring"
refuted "\"$asked\" == \"sp-split\" && $ulysses == 4 && $ring == 2" "one degree is given; Ulysses is gcd(4 KV heads, 8), the ring is the rest"
