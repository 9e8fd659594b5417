#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "An H100 80 GB barely fits one micro-batch of a 7B at length 4,096; SP pays from 4k"
job="predict --framework ms-swift --model qwen2.5-7b --seq 4096 --gpus 8 --gpu h100-80gb --recompute full"
inputs=$(ask '.memory.per_layer.checkpoint_bytes * 28' $job)
used=$(ask '.memory.device_bytes / .memory.capacity_bytes * 100 | round' $job)
prediction "28 checkpoints are $inputs bytes; the whole job uses $used % of the card"
refuted "$inputs == 28 * 2 * 4096 * 3584 && $used < 60" "822 MB of layer inputs; sequence parallelism pays at tens of thousands of tokens"
