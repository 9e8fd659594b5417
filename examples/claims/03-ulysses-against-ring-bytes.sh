#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Ulysses sends 1/7 of the ring's bytes, 90 % less"
job="predict --framework megatron-lm --seq 32k"
u7=$(ask .comm.sent_bytes_per_layer.ulysses_forward $job --model qwen2.5-7b --gpus 4 --sp-kind ulysses --ulysses 4)
r7=$(ask .comm.sent_bytes_per_layer.ring_forward $job --model qwen2.5-7b --gpus 4 --sp-kind ring --ring 4)
u8=$(ask .comm.sent_bytes_per_layer.ulysses_forward $job --model llama3.1-8b --gpus 8 --sp-kind ulysses --ulysses 8)
r8=$(ask .comm.sent_bytes_per_layer.ring_forward $job --model llama3.1-8b --gpus 8 --sp-kind ring --ring 8)
prediction "one layer forward: Qwen2.5-7B on 4: Ulysses $u7, ring $r7; Llama-3.1-8B on 8: Ulysses $u8, ring $r8"
refuted "$u7 == 2 * $r7 && $u8 == 0.625 * $r8" "twice the ring's on Qwen2.5-7B, 0.625 of it on Llama-3.1-8B: it depends on heads and degree"
