#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "The KV cache grows with the square of the length; Qwen2.5-7B at 32k needs 28 GB of it"
job="predict --framework vllm --mode infer --model qwen2.5-7b --gpus 1"
one=$(ask .memory.parts.kv_cache_bytes $job --seq 32k)
two=$(ask .memory.parts.kv_cache_bytes $job --seq 64k)
prediction "$one bytes at 32k, $two at 64k"
refuted "$one == 57344 * 32768 && $two == 2 * $one" "1.75 GiB, linear: 57,344 bytes a token"
