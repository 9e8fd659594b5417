#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "Ulysses is incompatible with FSDP"
job="predict --framework verl --model qwen2.5-7b --seq 32k --gpus 8 --zero 3"
weights=.memory.resident.weights_bytes
plain=$(ask $weights $job)
refusal=$(rule $job --ulysses 4)
sp=$(ask $weights $job --ulysses 4)
prediction "FSDP with Ulysses 4 is $refusal; a GPU holds $plain bytes of weights with DP 8, $sp with DP 2 x Ulysses 4"
refuted "\"$refusal\" == \"legal\" && $sp == $plain" "one splits activations, the other states: the shard group is DP x SP"
