#!/usr/bin/env python3
"""Measures what Megatron's layers cost the host without kernels and network: a dense layer, the same over two tensor-parallel
ranks with sequence parallelism, a mixture with its router, dispatcher and shared expert, and the distributed optimizer by
the parameter.

A development tool like host.py. Runs megatron-core's own modules (no TransformerEngine) on tensors of no size over torch's
fake process group on one CPU thread; NCCL's own host time is not in it. What transfers to a GPU machine is the ratio to the
plain layer of host.py, which is measured beside it. Writes host/megatron.json.

    pip download --no-deps megatron-core==0.16.1, unpack it
    python3 tests/oracle/host_megatron.py FOLDER
"""

import contextlib
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
REPEATS, FEW, MANY = 40, 2, 8


def low(times):
    """A low quantile: other programs on the machine only add."""
    return statistics.quantiles(times[5:], n=10)[0]


class Nothing:
    """A stream, an event, a tracker of random numbers: whatever is asked of it."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        return lambda *_, **__: Nothing()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def on_cpu(function):
    def call(*args, **kwargs):
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)
    return call


def start(folder, ranks):
    """Megatron without a GPU: what it asks of CUDA does nothing."""
    sys.path.insert(0, folder)
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.set_num_threads(1)
    cuda = torch.cuda
    cuda.current_device = lambda: torch.device("cpu")
    cuda.Stream = cuda.Event = Nothing
    cuda.current_stream, cuda.stream = (lambda *_: Nothing()), (lambda _: contextlib.nullcontext())
    cuda.synchronize = lambda *_: None
    for name in ("tensor", "zeros", "empty", "ones", "full"):
        setattr(torch, name, on_cpu(getattr(torch, name)))
    torch.Tensor.cuda = lambda self, *_, **__: self
    kind = torch.Tensor.type
    torch.Tensor.type = lambda self, *a, **k: kind(self, *a, **k) if a or k else kind(self).replace("torch.", "torch.cuda.")
    torch.distributed.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    group = torch.distributed.new_group
    torch.distributed.new_group = lambda *a, **k: group(*a, **{**k, "backend": "fake"})
    from megatron.core import parallel_state
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks)
    from megatron.core.transformer import torch_norm
    torch_norm.WrappedTorchNorm.__new__ = lambda cls, config, hidden_size, eps=1e-5, **_: torch.nn.RMSNorm(hidden_size, eps)
    import megatron.core.models.gpt.gpt_layer_specs  # noqa: F401
    import megatron.core.transformer.moe.moe_utils as moe_utils
    moe_utils.te_general_gemm = None
    for module in list(sys.modules.values()):
        if module.__name__.startswith("megatron") and hasattr(module, "get_cuda_rng_tracker"):
            module.get_cuda_rng_tracker = lambda *_, **__: Nothing()
    return torch


def block_of(torch, layers, ranks, moe):
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.transformer_block import TransformerBlock
    from megatron.core.transformer.transformer_config import TransformerConfig
    more = dict(num_moe_experts=2, moe_router_topk=2, moe_token_dispatcher_type="alltoall", moe_ffn_hidden_size=64,
                moe_router_load_balancing_type="seq_aux_loss", moe_aux_loss_coeff=1e-3, moe_router_dtype="fp32",
                moe_router_score_function="sigmoid", moe_router_enable_expert_bias=True,
                moe_shared_expert_intermediate_size=64) if moe else {}
    config = TransformerConfig(
        num_layers=layers, hidden_size=64, ffn_hidden_size=64, num_attention_heads=2, use_cpu_initialization=True, bf16=True,
        params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, normalization="RMSNorm", gated_linear_unit=True,
        activation_func=torch.nn.functional.silu, add_bias_linear=False, bias_dropout_fusion=False,
        masked_softmax_fusion=False, hidden_dropout=0.0, attention_dropout=0.0, gradient_accumulation_fusion=False,
        apply_rope_fusion=False, persist_layer_norm=False, tensor_model_parallel_size=ranks, sequence_parallel=ranks > 1,
        **more)
    spec = get_gpt_layer_local_spec(num_experts=2 if moe else None, moe_grouped_gemm=False, normalization="RMSNorm")
    return TransformerBlock(config, spec, pre_process=True, post_process=True).bfloat16().train()


def layer_ms(folder, ranks, moe):
    torch = start(folder, ranks)
    low_s = []
    for layers in (MANY, FEW):  # the table of the router's losses has the first model's length
        block = block_of(torch, layers, ranks, moe)
        x, rope = torch.randn(8 // ranks, 1, 64).bfloat16().requires_grad_(), torch.randn(8, 1, 1, 32)
        mask, times = torch.triu(torch.ones(1, 1, 8, 8, dtype=torch.bool), 1), ([], [])
        for _ in range(REPEATS):
            begin = time.thread_time()
            loss = block(x, mask, rotary_pos_emb=rope).float().sum()
            middle = time.thread_time()
            loss.backward()
            times[0].append(middle - begin)
            times[1].append(time.thread_time() - middle)
        low_s.append([low(t) for t in times])
    forward, backward = (round(1e3 * (a - b) / (MANY - FEW), 3) for a, b in zip(*low_s))
    return {"forward_ms": forward, "backward_ms": backward}


def optimizer_us(folder, few=40, many=240):
    """By the parameter: the step without the update itself, which TransformerEngine does in one kernel for all."""
    torch = start(folder, 1)
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer.module import MegatronModule
    from megatron.core.transformer.transformer_config import TransformerConfig
    config = TransformerConfig(num_layers=1, hidden_size=16, num_attention_heads=1, use_cpu_initialization=True, bf16=True,
                               params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16)

    class Chain(MegatronModule):
        def __init__(self, count):
            super().__init__(config)
            self.parts = torch.nn.ModuleList(torch.nn.Linear(16, 16, bias=False) for _ in range(count))

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return x

    low_s = []
    for count in (few, many):
        model = DistributedDataParallel(
            config, DistributedDataParallelConfig(use_distributed_optimizer=True, overlap_grad_reduce=False),
            Chain(count).bfloat16())
        optimizer = get_megatron_optimizer(
            OptimizerConfig(optimizer="adam", lr=1e-4, bf16=True, params_dtype=torch.bfloat16,
                            use_distributed_optimizer=True, clip_grad=1.0), [model])
        inner = optimizer.chained_optimizers[0].optimizer
        inner.step = lambda *_, **__: None
        steps = []
        for _ in range(REPEATS):
            model.zero_grad_buffer()
            optimizer.zero_grad()
            model(torch.randn(4, 16).bfloat16()).float().sum().backward()
            model.finish_grad_sync()
            begin = time.thread_time()
            optimizer.step()
            steps.append(time.thread_time() - begin)
        low_s.append(low(steps))
    return round(1e6 * (low_s[1] - low_s[0]) / (many - few), 1)


def plain_layer_ms():
    sys.path.insert(0, HERE)
    import host
    forward, backward = host.layer_ms(lambda layers: host.model_of(layers))
    return {"forward_ms": forward, "backward_ms": backward}


def main():
    folder = sys.argv[1]
    apart = multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1)  # each in a process of its own
    rows = {"plain layer of host.py": apart.apply(plain_layer_ms)}
    for name, ranks, moe in (("dense", 1, False), ("dense, two ranks", 2, False), ("mixture", 1, True)):
        rows[name] = apart.apply(layer_ms, (folder, ranks, moe))
    out = {"_doc": "host_megatron.py: CPU time of one layer of no size on one thread", "python": platform.python_version(),
           "megatron-core": "0.16.1", "layers": rows, "optimizer_step_us_a_parameter": apart.apply(optimizer_us, (folder,))}
    with open(os.path.join(HERE, "host", "megatron.json"), "w", encoding="utf-8") as file:
        json.dump(out, file, indent=1)
        file.write("\n")
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
