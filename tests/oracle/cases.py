"""The cases: models with weights small enough for a CPU, shapes whose every width differs from the others, and ways to
train them. Only configurations: nothing is downloaded."""

# hidden, MLP, heads, KV heads, head width, tokens of a sequence, sequences
SHAPES = {
    "small": (64, 160, 8, 2, 16, 32, 1),
    "odd": (96, 208, 6, 3, 24, 40, 2),
    "medium": (512, 1408, 16, 4, 64, 256, 1),
}


def plain(shape, head_dim=True, kv=True, **more):
    h, i, nq, nk, dh, _, _ = SHAPES[shape]
    keys = dict(hidden_size=h, intermediate_size=i, num_attention_heads=nq, vocab_size=256, max_position_embeddings=4096,
                tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    if kv:
        keys["num_key_value_heads"] = nk
    if head_dim:
        keys["head_dim"] = dh
    return keys | more


def experts(shape):
    return {"small": (4, 2, 32), "odd": (6, 3, 56), "medium": (8, 2, 192)}[shape]


def mixtral(shape):
    e, k, _ = experts(shape)
    return plain(shape, num_local_experts=e, num_experts_per_tok=k)


def qwen3_moe(shape):
    e, k, width = experts(shape)
    return plain(shape, num_experts=e, num_experts_per_tok=k, moe_intermediate_size=width, decoder_sparse_step=1,
                 mlp_only_layers=[], norm_topk_prob=True)


def qwen2_moe(shape):
    keys = qwen3_moe(shape) | {"shared_expert_intermediate_size": SHAPES[shape][1] // 2, "norm_topk_prob": False}
    del keys["head_dim"]
    return keys


def mla(shape, moe):
    e, k, width = experts(shape)
    h, _, nq, _, dh, _, _ = SHAPES[shape]
    return plain(shape, head_dim=False, num_key_value_heads=nq, kv_lora_rank=h // 2, qk_nope_head_dim=dh,
                 qk_rope_head_dim=8, v_head_dim=dh, n_routed_experts=e, num_experts_per_tok=k,
                 moe_intermediate_size=width, n_shared_experts=1, first_k_dense_replace=0 if moe else 8)


def deepseek_v2(shape, moe):
    return mla(shape, moe) | {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
                              "moe_layer_freq": 1, "routed_scaling_factor": 1.0}


def deepseek_v3(shape, moe):
    return mla(shape, moe) | {"q_lora_rank": SHAPES[shape][0] * 3 // 4, "n_group": 1, "topk_group": 1}


def gpt2(shape):
    h, i, nq, _, _, _, _ = SHAPES[shape]
    return dict(n_embd=h, n_inner=i, n_head=nq, vocab_size=256, n_positions=4096, resid_pdrop=0.0, embd_pdrop=0.0,
                attn_pdrop=0.0)


def falcon(shape, new):
    h, i, nq, nk, _, _, _ = SHAPES[shape]
    keys = dict(hidden_size=h, ffn_hidden_size=i, num_attention_heads=nq, vocab_size=256, alibi=False, bias=False,
                parallel_attn=True, new_decoder_architecture=new, hidden_dropout=0.0, attention_dropout=0.0)
    return keys | ({"num_kv_heads": nk} if new else {"multi_query": True})


def gpt_oss(shape):
    e, k, _ = experts(shape)
    return plain(shape, num_local_experts=e, num_experts_per_tok=k, sliding_window=128)


# name: (model_type, keys of a shape, attentions, with LoRA)
# Without sdpa: latent attention, whose q and v differ in width, which the CPU's flash kernel refuses (it would count the
# fp32 path that no GPU takes), and Gemma 2, whose soft cap transformers 5.24 does not give to sdpa. Without
# FlashAttention: Falcon, whose class for it wants the real package.
ALL, NO_FLASH, NO_SDPA = ("eager", "sdpa", "fa2"), ("eager", "sdpa"), ("eager", "fa2")
FAMILIES = {
    "llama": ("llama", plain, ALL, True),
    "qwen2.5": ("qwen2", plain, ALL, True),
    "qwen3": ("qwen3", plain, ALL, True),
    "mistral": ("mistral", plain, ALL, False),
    "mistral-window": ("mistral", lambda s: plain(s, sliding_window=16), ALL, False),
    "qwen3-moe": ("qwen3_moe", qwen3_moe, ALL, True),
    "qwen2-moe": ("qwen2_moe", qwen2_moe, ALL, False),
    "mixtral": ("mixtral", mixtral, ALL, True),
    "gemma": ("gemma", plain, ALL, False),
    "gemma2": ("gemma2", lambda s: plain(s, attn_logit_softcapping=50.0, final_logit_softcapping=30.0), NO_SDPA, False),
    "gemma3": ("gemma3_text", plain, ALL, False),
    "gemma3-window": ("gemma3_text", lambda s: plain(s, sliding_window=16), ALL, False),
    "gpt2": ("gpt2", gpt2, ALL, False),
    "falcon-7b": ("falcon", lambda s: falcon(s, False), NO_FLASH, False),
    "falcon-40b": ("falcon", lambda s: falcon(s, True), NO_FLASH, False),
    "phi3": ("phi3", lambda s: plain(s, head_dim=False), ALL, False),
    "olmo2": ("olmo2", lambda s: plain(s, head_dim=False), ALL, False),
    "deepseek-v2-dense": ("deepseek_v2", lambda s: deepseek_v2(s, False), NO_SDPA, True),
    "deepseek-v2-moe": ("deepseek_v2", lambda s: deepseek_v2(s, True), NO_SDPA, False),
    "deepseek-v3-dense": ("deepseek_v3", lambda s: deepseek_v3(s, False), NO_SDPA, True),
    "deepseek-v3-moe": ("deepseek_v3", lambda s: deepseek_v3(s, True), NO_SDPA, False),
    "gpt-oss": ("gpt_oss", gpt_oss, ("eager",), False),
}

ALL_LINEAR = ["q", "k", "v", "o", "gate", "up", "down"]
# rank, dropout, adapters in fp32, autocast, quantised base weights, targets
ADAPTERS = {
    "lora": (4, 0.0, False, False, False, ALL_LINEAR),
    "lora-dropout": (4, 0.05, False, False, False, ALL_LINEAR),
    "lora-fp32": (4, 0.0, True, False, False, ALL_LINEAR),
    "lora-fp32-dropout": (4, 0.05, True, False, False, ALL_LINEAR),
    "lora-fp32-autocast": (4, 0.0, True, True, False, ALL_LINEAR),
    "lora-fp32-autocast-dropout": (4, 0.05, True, True, False, ALL_LINEAR),
    "lora-qv": (6, 0.0, False, False, False, ["q", "v"]),
    "lora-mlp": (6, 0.0, False, False, False, ["gate", "up", "down"]),
    "qlora": (4, 0.0, False, False, True, ALL_LINEAR),
    "qlora-dropout": (4, 0.05, False, False, True, ALL_LINEAR),
    "qlora-fp32-autocast-dropout": (4, 0.05, True, True, True, ALL_LINEAR),
}


def of_family(family):
    """(shape, attention, adapter or None, checkpointing) of every case."""
    _, _, attentions, lora = FAMILIES[family]
    best = attentions[-1]
    cases = [(shape, attention, None, "none") for shape in SHAPES for attention in attentions]
    if best != "eager":  # whose masks, one for each kind of layer, the checkpoints' arguments hold
        cases += [("odd", best, None, "full"), ("odd", best, None, "full-reentrant")]
    if lora:
        cases += [(shape, best, name, "none") for name in ADAPTERS for shape in ("small", "odd")]
        cases += [("odd", best, "lora-dropout", "full")]
    return cases
