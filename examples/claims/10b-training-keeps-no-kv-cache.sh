#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Splitting the KV cache saves 75 % of training memory"
kv=$(ask .memory.parts.kv_cache_bytes predict --framework ms-swift --model qwen2.5-7b --seq 32k --gpus 8 --sp 4)
prediction "KV cache of a training step: $kv bytes"
refuted "$kv == 0" "training keeps none; k and v are among the activations"
