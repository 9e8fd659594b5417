#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "FlashAttention-3's FP8 halves the communication of keys and values"
job="predict --framework ms-swift --model llama3.1-8b --seq 64k --gpus 8 --gpu h100-80gb --sp 8"
sent=.comm.sent_bytes_per_step
fa2=$(ask $sent $job --attention fa2)
fa3=$(ask $sent $job --attention fa3)
prediction "a step sends $fa2 bytes with FlashAttention-2 and $fa3 with 3"
refuted "$fa2 == $fa3 && $fa2 > 0" "a kernel sends nothing; what travels is 16-bit with either"
