#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Ulysses needs one all-to-all"
job="predict --framework deepspeed --model qwen2.5-7b --seq 32k --gpus 4 --sp-kind ulysses --ulysses 4 --micro-batch 1 --global-batch 1"
count='[.comm.ops[] | select(.op == "all_to_all" and .group == "ulysses") | .count_per_step] | add / 28'
none=$(ask "$count" $job --recompute none)
full=$(ask "$count" $job --recompute full)
prediction "a layer, a micro-batch: $none all-to-alls, $full with full recompute"
refuted "$none == 8 && $full == 12" "4 forward and 4 backward; 12 with full recompute"
