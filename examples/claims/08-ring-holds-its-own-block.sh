#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "The ring requires every card to hold all copies of K and V"
job="predict --framework megatron-lm --model llama2-7b --seq 64k --recompute none --micro-batch 1 --global-batch 1"
kept=.memory.per_layer.kept_bytes
one=$(ask $kept $job --gpus 1)
eight=$(ask $kept $job --gpus 8 --sp-kind ring --ring 8)
prediction "a layer keeps $one bytes without a ring, $eight on each of 8; all of K and V are $((2 * 2 * 65536 * 4096))"
refuted "8 * $eight == $one" "a card keeps its own eighth; other blocks pass through while the layer runs"
