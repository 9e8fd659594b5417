#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "K and V of 8,192 tokens at width 4,096 in bf16 need about 128 GB"
job="predict --mode infer --framework vllm --seq 8192 --gpus 1"
bytes=$(ask .memory.parts.kv_cache_bytes $job --model llama2-7b)
grouped=$(ask .memory.parts.kv_cache_bytes $job --model qwen2.5-7b)
prediction "Llama-2-7B (32 layers, width 4,096): $((bytes / 32)) bytes a layer, $bytes in all; Qwen2.5-7B (28 layers, 4 KV heads of 128): $((grouped / 28)) and $grouped"
refuted "$bytes / 32 == 2 * 8192 * 4096 * 2 && $grouped / 28 == 2 * 8192 * 512 * 2" "128 MiB a layer, off by 1,024; 16 MiB with grouped heads, 448 MiB in 28 layers"
