#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Above 8 GPUs Ulysses cannot be used"
job="predict --framework deepspeed --model llama3.1-70b --seq 1m --gpus 64 --sp-kind ulysses"
sixty_four=$(rule $job --ulysses 64)
twenty_four=$(rule predict --framework deepspeed --model llama3.1-70b --seq 1m --gpus 24 --sp-kind ulysses --ulysses 24)
prediction "64 ranks on 64 query heads: $sixty_four; 24 ranks: $twenty_four"
[ "$sixty_four" = legal ] && [ "$twenty_four" != legal ] && ok=1 || ok=0
refuted "$ok == 1" "the limit is the head count, not 8"
