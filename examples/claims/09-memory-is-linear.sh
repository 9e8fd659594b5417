#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Sequence parallelism brings attention memory from O(N^2) to O(N^2 / P)"
job="predict --framework megatron-lm --model llama3.1-8b --recompute none --micro-batch 1 --global-batch 1"
kept=.memory.per_layer.kept_bytes
short=$(ask $kept $job --gpus 1 --seq 32k)
long=$(ask $kept $job --gpus 1 --seq 64k)
shared=$(ask $kept $job --gpus 4 --seq 64k --sp-kind ring --ring 4)
prediction "a layer keeps $short bytes at 32k, $long at 64k, $shared at 64k over 4 cards"
refuted "$long == 2 * $short && 4 * $shared == $long" "with flash attention it is O(N), and O(N / P) over P cards: the N x N matrix is never stored"
