#!/usr/bin/env python3
"""Lists what inductor makes of Megatron's fused cross entropy: one line a buffer as wide as the vocabulary.

A development tool: no build, test or program needs it. It wants torch, and the source of megatron-core on the path:

    PYTHONPATH=folder/of/megatron-core python3 tests/oracle/compiled_loss.py

megatron-core decorates the four steps of fusions/fused_cross_entropy.py with jit_fuser, torch.compile since torch 2.2 (jit.py). With
megatron-core 0.16.1 and torch 2.15 the forward makes one fp32 matrix, the upcast logits, and works in it; the backward makes a
second, a copy of the softmax that the target's update goes to, beside the 16-bit gradient: 4 + 4 + 2 bytes a logit, where the
operators one by one take 4 + 2. Inductor's CPU output is read; buffers are decided before the code of a device is made."""

import importlib.util
import os
import re
import sys
import types

import torch
from torch._inductor.utils import run_and_get_code

TOKENS, VOCAB = 256, 2048


def module(name, path=None, **names):
    """A module of that name: from the file, or empty but for the names. megatron.core's own imports want a GPU's libraries."""
    made = types.ModuleType(name)
    if path:
        spec = importlib.util.spec_from_file_location(name, path)
        made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    made.__dict__.update(names)
    if path:
        spec.loader.exec_module(made)
    return made


def steps():
    root = next(core for core in (f"{entry}/megatron/core" for entry in sys.path) if os.path.isdir(core))
    for name in ("megatron", "megatron.core", "megatron.core.tensor_parallel"):
        module(name)
    module("megatron.core.parallel_state", get_tensor_model_parallel_group=None, get_tensor_model_parallel_rank=None,
           get_tensor_model_parallel_world_size=None)
    module("megatron.core.tensor_parallel.utils", VocabUtility=None)
    module("megatron.core.utils", is_torch_min_version=lambda _: True)
    module("megatron.core.jit", jit_fuser=lambda step: step)
    module("megatron.core.tensor_parallel.cross_entropy", f"{root}/tensor_parallel/cross_entropy.py")
    return module("fused", f"{root}/fusions/fused_cross_entropy.py")


def run(step, *inputs):
    torch._dynamo.reset()
    made, code = run_and_get_code(torch.compile(step), *inputs)
    for line in "".join(code).splitlines():
        wide = re.match(rf"\s+(buf\d+) = empty_strided\w+\(\(([^)]*{VOCAB}[^)]*)\), .*torch\.(\w+)\)", line)
        if wide:
            print(f"{step.__name__}: {wide[3]} ({wide[2]})")
    return made


def main():
    fused = steps()
    logits, target = torch.randn(TOKENS, 1, VOCAB, dtype=torch.bfloat16), torch.randint(0, VOCAB, (TOKENS, 1))
    wide, most = run(fused.calculate_logits_max, logits)
    mask, target, sums, exp = run(fused.calculate_predicted_logits, wide, target, most, 0, VOCAB)
    exp, loss = run(fused.calculate_cross_entropy_loss, exp, sums)
    run(fused.calculate_gradients, exp, torch.ones_like(loss), mask, target)
    print("forward in place:", exp.untyped_storage().data_ptr() == wide.untyped_storage().data_ptr())


main()
