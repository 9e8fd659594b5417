"""FlashAttention-2 on a CPU: the same autograd contract (it saves q, k, v, out and the log-sum-exp, as
Dao-AILab/flash-attention flash_attn_interface.py FlashAttnFunc does), behind transformers' own integration, so that
every transpose, pad and copy around the kernel is the real one."""

import torch
import transformers.modeling_flash_attention_utils as flash_utils


class FlashAttention(torch.autograd.Function):
    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def forward(ctx, q, k, v):
        batch, tokens, heads, width = q.shape
        repeat = heads // k.shape[2]
        wide = [t.transpose(1, 2).float() for t in (q, k.repeat_interleave(repeat, 2), v.repeat_interleave(repeat, 2))]
        scores = wide[0] @ wide[1].transpose(2, 3) / width**0.5
        scores += torch.full((tokens, tokens), float("-inf")).triu(1)
        lse = scores.logsumexp(-1)
        out = torch.empty_like(q)  # with the strides of q, as csrc/flash_attn/flash_api.cpp makes it
        out.copy_((scores.softmax(-1) @ wide[2]).transpose(1, 2))
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    deterministic=False):
    return FlashAttention.apply(q, k, v)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, deterministic=False):
    raise NotImplementedError("the stand-in takes whole sequences")


def install():
    """Make `flash_attention_2` mean the stand-in."""
    flash_utils._flash_fn = flash_attn_func
    flash_utils._flash_varlen_fn = flash_attn_varlen_func
    flash_utils._pad_fn, flash_utils._unpad_fn = flash_utils._pad_input, flash_utils._unpad_input
    flash_utils._process_flash_kwargs_fn = flash_utils._lazy_define_process_function(flash_attn_varlen_func)
    flash_utils._process_with_kvcache_kwargs_fn = dict
    flash_utils._loaded_implementation = "flash_attention_2"
