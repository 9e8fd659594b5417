#!/usr/bin/env bash
. "$(dirname "$0")/lib.sh"
claim "The ring's bytes per GPU fall as S/N, like Ulysses'"
job="predict --framework megatron-lm --model llama2-7b --seq 64k"
r4=$(ask .comm.sent_bytes_per_layer.ring_forward $job --gpus 4 --sp-kind ring --ring 4)
r16=$(ask .comm.sent_bytes_per_layer.ring_forward $job --gpus 16 --sp-kind ring --ring 16)
u4=$(ask .comm.sent_bytes_per_layer.ulysses_forward $job --gpus 4 --sp-kind ulysses --ulysses 4)
u16=$(ask .comm.sent_bytes_per_layer.ulysses_forward $job --gpus 16 --sp-kind ulysses --ulysses 16)
prediction "4 to 16 ranks: ring $r4 to $r16, Ulysses $u4 to $u16"
refuted "$r16 == 1.25 * $r4 && $u16 * 3.2 == $u4" "the ring's tend to a constant (x 1.25 here), Ulysses' fall (x 0.31)"
