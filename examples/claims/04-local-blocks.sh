#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "At 32k on 2 cards each computes only its local block of 16k x 16k, and the result equals full attention"
job="predict --framework deepspeed --model llama3.1-8b --seq 32k --global-batch 1"
one=$(ask .time.parts.attention_s $job --gpus 1)
two=$(ask .time.parts.attention_s $job --gpus 2 --sp-kind ulysses --ulysses 2)
ratio=$(awk "BEGIN { printf \"%.2f\", $two / $one }")
prediction "attention of a step: $one s on one card, $two s on each of two: $ratio of it, where local blocks would be 0.25"
refuted "$ratio > 0.45 && $ratio < 0.6" "Ulysses computes all 32k x 32k pairs for half of the heads; local blocks leave out the cross terms"
