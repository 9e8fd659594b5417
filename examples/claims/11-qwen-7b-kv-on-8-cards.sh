#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Qwen-7B at 32k on 8 cards: the KV cache falls from 60 GB to 20 GB a card"
job="predict --framework vllm --mode infer --model qwen-7b --seq 32k"
one=$(ask .memory.parts.kv_cache_bytes $job --gpus 1)
eight=$(ask .memory.parts.kv_cache_bytes $job --gpus 8 --tp 8)
prediction "$one bytes on one card, $eight on each of 8"
refuted "$one == 16 * 2^30 && $eight == 2 * 2^30" "16 GiB in all, 2 GiB a card"
