#!/usr/bin/env python3
"""Counts what a compiled layer saves for backward: torch.compile's partitioner decides, not the operators.

A development tool: no build, test or program needs it. It wants torch, and torchao on the path for the FP8 rows. A layer of
the shape of torchtitan's Llama (torchtitan 0.3.0 models/llama3, models/common/attention.py) is compiled with the partitioner
and decompositions that inductor uses, under no recompute, torchtitan's per-operator policy (distributed/
activation_checkpoint.py SelectiveAC) and full recompute; attention is a stand-in that saves q, k, v, output and log-sum-exp.

    python3 tests/oracle/compiled.py             bytes a token of the saved storages, and their shapes

With torch 2.15 (h 256, dq 256, dk 64, MLP 896, 8 heads): none 8,744; selective 3,488, with one product for q, k, v 3,616; full
512; FP8 (torchao 0.11.0 and 0.18.0, emulated) none 5,928. torchtitan 0.3.0's debug model (h, dq, dk 256, MLP 768, 16 heads,
FlexAttention), its SelectiveAC and this backend: 4,160, which is input, q and k and v, attention's output, its log-sum-exp and gate.
"""

import os
import warnings
from collections import defaultdict

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper  # noqa: E402
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts  # noqa: E402

H, FFN, HEADS, KV, DIM, T = 256, 896, 8, 2, 32, 128

library = torch.library.Library("spp_oracle", "DEF")
library.define("flash_forward(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)")
library.define("flash_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor o, Tensor l) -> (Tensor, Tensor, Tensor)")
library.define("flash(Tensor q, Tensor k, Tensor v) -> Tensor")
OPS = torch.ops.spp_oracle


def flash_forward(q, k, v):
    return q.transpose(1, 2).contiguous().transpose(1, 2) * 1.0, q.float().sum(-1)


def flash_forward_meta(q, k, v):
    out = torch.empty(q.shape[0], q.shape[2], q.shape[1], q.shape[3], dtype=q.dtype, device=q.device)
    return out.transpose(1, 2), q.new_empty(q.shape[:3], dtype=torch.float32)


class Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        with torch._C._AutoDispatchBelowAutograd():
            out, lse = OPS.flash_forward(q, k, v)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad):
        return OPS.flash_backward(grad, *ctx.saved_tensors)


def empty_like(_, q, k, v, *rest):
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


library.impl("flash_forward", flash_forward, "CPU")
library.impl("flash_forward", flash_forward_meta, "Meta")
library.impl("flash_backward", lambda g, q, k, v, o, l: (g * 1.0, k * 1.0, v * 1.0), "CPU")
library.impl("flash_backward", empty_like, "Meta")
library.impl("flash", Flash.apply, "Autograd")
for key in ("CPU", "Meta"):
    library.impl("flash", lambda q, k, v: OPS.flash_forward(q, k, v)[0], key)


class Attention(nn.Module):
    def __init__(self, fused):
        super().__init__()
        widths = [(HEADS + 2 * KV) * DIM] if fused else [HEADS * DIM, KV * DIM, KV * DIM]
        self.inputs = nn.ModuleList(nn.Linear(H, w, bias=False) for w in widths)
        self.wo = nn.Linear(HEADS * DIM, H, bias=False)
        angles = torch.outer(torch.arange(T).float(), 1e-4 ** (torch.arange(0, DIM, 2).float() / DIM))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos()[None, :, None, :])
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin()[None, :, None, :])

    def rotate(self, x):
        a, b = x.float().chunk(2, -1)
        return (x.float() * self.cos + torch.cat([-b, a], -1) * self.sin).type_as(x)

    def heads(self, x):
        if len(self.inputs) == 3:
            return [w(x).view(1, T, -1, DIM) for w in self.inputs]
        parts = torch.split(self.inputs[0](x).view(1, T, KV, HEADS // KV + 2, DIM), [HEADS // KV, 1, 1], -2)
        return [p.reshape(1, T, -1, DIM).contiguous() for p in parts]

    def forward(self, x):
        q, k, v = self.heads(x)
        q, k, v = (y.transpose(1, 2) for y in (self.rotate(q), self.rotate(k), v))
        return self.wo(OPS.flash(q, k, v).transpose(1, 2).contiguous().view(1, T, -1))


class Layer(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(fused), nn.RMSNorm(H), nn.RMSNorm(H)
        self.w1, self.w3 = nn.Linear(H, FFN, bias=False), nn.Linear(H, FFN, bias=False)
        self.w2 = nn.Linear(FFN, H, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


def every_second_product():
    counts = defaultdict(int)

    def policy(ctx, function, *args, **kwargs):
        product = function == torch.ops.aten.mm.default
        counts[ctx.is_recompute] += product
        save = function == OPS.flash_forward.default or (product and counts[ctx.is_recompute] % 2)
        return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def count(recompute, fused, fp8):
    torch._dynamo.reset()
    layer = Layer(fused).to(torch.bfloat16)
    if fp8:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        convert_to_float8_training(layer, config=Float8LinearConfig(emulate=True))
    own = {t.untyped_storage().data_ptr() for t in (*layer.parameters(), *layer.buffers())}
    if recompute == "selective":
        layer = checkpoint_wrapper(layer, context_fn=every_second_product, early_stop=False)
    elif recompute == "full":
        layer = checkpoint_wrapper(layer, early_stop=False)
    layer.compile(backend="aot_eager_decomp_partition", fullgraph=True)
    x, kept = torch.randn(1, T, H, dtype=torch.bfloat16, requires_grad=True) * 1.0, {}

    def pack(t):
        if t.untyped_storage().data_ptr() not in own:
            kept[t.untyped_storage().data_ptr()] = (tuple(t.shape), str(t.dtype)[6:], t.untyped_storage().nbytes())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        layer(x)
    saved = [k for k in kept.values() if k[2] > 64]  # scales of FP8 casts apart
    print(f"{recompute:9s} {'fp8 ' if fp8 else 'bf16'} {'one product' if fused else 'q, k, v    '} "
          f"{sum(k[2] for k in saved) / T:6.0f} bytes a token: {[k[:2] for k in saved]}")


def main():
    try:
        import torchao  # noqa: F401
        formats = (False, True)
    except ImportError:
        formats = (False,)
    for recompute in ("none", "selective", "full"):
        for fused in (False, True):
            count(recompute, fused, False)
    if True in formats:
        count("none", False, True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
