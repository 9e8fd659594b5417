#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "K and V of 8,192 tokens at width 4,096 in bf16 need about 128 GB"
bytes=$(ask .memory.parts.kv_cache_bytes predict --mode infer --framework vllm --model llama2-7b --seq 8192 --gpus 1)
prediction "Llama-2-7B (32 layers, width 4,096): $bytes bytes in all, $((bytes / 32)) a layer"
refuted "$bytes / 32 == 2 * 8192 * 4096 * 2" "128 MiB a layer, off by 1,024"
