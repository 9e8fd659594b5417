#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Ulysses runs 32k on a single A100"
sp=$(ask .layout.sp predict --framework deepspeed --model qwen2.5-7b --seq 32k --gpus 1 --gpu a100-80gb)
over=$(ask '.memory.device_bytes > .memory.capacity_bytes' predict --framework deepspeed --model qwen2.5-7b --seq 32k --gpus 1 --gpu a100-80gb --loss full)
prediction "on one card the sequence-parallel degree is $sp; full fine-tuning is over the card: $over"
[ "$over" = true ] && ok=1 || ok=0
refuted "$sp == 1 && $ok == 1" "one rank splits nothing; sequence parallelism starts at 2"
