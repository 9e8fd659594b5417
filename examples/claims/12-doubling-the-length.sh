#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Doubling the length leaves Ulysses memory almost unchanged"
job="predict --framework deepspeed --model llama3.1-8b --gpus 8 --sp-kind ulysses --ulysses 8 --recompute full --loss full"
grow='.memory.per_layer.kept_bytes, .memory.per_layer.checkpoint_bytes'
read -r k1 c1 <<<"$(ask "$grow" $job --seq 64k | xargs)"
read -r k2 c2 <<<"$(ask "$grow" $job --seq 128k | xargs)"
prediction "a layer keeps $k1 bytes at 64k and $k2 at 128k; a checkpoint $c1 and $c2"
refuted "$k2 == 2 * $k1 && $c2 == 2 * $c1" "every term linear in tokens doubles"
