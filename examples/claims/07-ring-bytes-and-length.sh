#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "In the ring only scalars travel; the volume is constant and independent of the length"
job="predict --framework megatron-lm --model qwen2.5-7b --gpus 8 --sp-kind ring --ring 8"
short=$(ask .comm.sent_bytes_per_layer.ring_forward $job --seq 32k)
long=$(ask .comm.sent_bytes_per_layer.ring_forward $job --seq 64k)
prediction "one layer forward: $short bytes at 32k, $long at 64k"
refuted "$short == 58720256 && $long == 2 * $short" "K and V blocks travel: 7 of 8 MiB each at 32k, linear in the length"
