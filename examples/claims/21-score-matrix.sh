#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "The S x S matrix of attention at batch 2, S = 8k is 1.5 GB, and SDPA stores it"
job="predict --framework ms-swift --model llama2-7b --seq 8192 --gpus 1 --micro-batch 2 --global-batch 2 --recompute none --zero 0"
eager=$(ask .memory.per_layer.kept_bytes $job --attention eager)
sdpa=$(ask .memory.per_layer.kept_bytes $job --attention sdpa)
one=$((2 * 32 * 8192 * 8192 * 2))
prediction "a layer keeps $eager bytes with eager attention, $sdpa with SDPA; one 16-bit score matrix is $one"
refuted "$one == 8589934592 && $eager - $sdpa > 2 * $one && $sdpa < $one" "8.6 GB for 32 heads, and SDPA's fused kernels store none"
