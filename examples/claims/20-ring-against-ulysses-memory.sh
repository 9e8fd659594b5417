#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "At 16 cards the ring needs 40 % less memory than Ulysses"
job="predict --framework megatron-lm --model llama2-7b --seq 64k --gpus 16 --recompute none --micro-batch 1 --global-batch 1"
kept=.memory.per_layer.kept_bytes
ring=$(ask $kept $job --sp-kind ring --ring 16)
ulysses=$(ask $kept $job --sp-kind ulysses --ulysses 16)
prediction "a layer keeps $ring bytes under the ring, $ulysses under Ulysses"
refuted "$ulysses - $ring == 2 * 4096 * 4096" "equal but for one attention output (2 T dq, $(awk "BEGIN { printf \"%.0f\", 100 * ($ulysses - $ring) / $ulysses }") %)"
