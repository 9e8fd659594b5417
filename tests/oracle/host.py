#!/usr/bin/env python3
"""Measures what one decoder layer costs the host: Python, hooks and operator calls, without the work of the kernels.

A development tool like saved_tensors.py. Layers so small that their operators do nothing run on one CPU thread; the
difference between many and few layers is the host's time of one. What transfers to a GPU machine is the ratio between
the rows: adapters, checkpointing, ZeRO-3, FSDP and one expert of a Python loop against the plain layer. Writes host/launches.json beside itself.

    python3 tests/oracle/host.py        (the deepspeed rows need the package deepspeed)
"""

import json
import os
import platform
import statistics
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0",
                  DS_ACCELERATOR="cpu")
import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(1)
HERE = os.path.dirname(os.path.abspath(__file__))
FEW, MANY, REPEATS = 3, 15, 60


def model_of(layers, checkpoint=False, lora=False):
    config = transformers.Qwen2Config(
        hidden_size=64, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=64, use_cache=False, attn_implementation="sdpa")
    model = transformers.Qwen2ForCausalLM(config).to(torch.bfloat16).train()
    if checkpoint:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    if lora:
        import peft
        model = peft.get_peft_model(
            model, peft.LoraConfig(r=8, lora_alpha=8, lora_dropout=0.05, target_modules="all-linear"))
    return model, lambda loss: loss.backward()


class Expert(torch.nn.Module):
    """transformers 4.51.3 Qwen3MoeMLP."""

    def __init__(self, width):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (torch.nn.Linear(width, width, bias=False) for _ in range(3))
        self.act_fn = torch.nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class ExpertLoop(torch.nn.Module):
    """The loop of transformers 4.51.3 models/qwen3_moe/modeling_qwen3_moe.py Qwen3MoeSparseMoeBlock."""

    def __init__(self, experts, top_k=4, width=64):
        super().__init__()
        self.top_k, self.gate = top_k, torch.nn.Linear(width, experts, bias=False)
        self.experts = torch.nn.ModuleList(Expert(width) for _ in range(experts))

    def forward(self, hidden):
        weights, chosen = torch.topk(self.gate(hidden).softmax(dim=1, dtype=torch.float), self.top_k, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(hidden.dtype)
        out = torch.zeros_like(hidden)
        mask = torch.nn.functional.one_hot(chosen, num_classes=len(self.experts)).permute(2, 1, 0)
        for i in range(len(self.experts)):
            expert = self.experts[i]
            index, top = torch.where(mask[i])
            rows = expert(hidden[None, top].reshape(-1, hidden.shape[-1])) * weights[top, index, None]
            out.index_add_(0, top, rows.to(hidden.dtype))
        return out


def expert_ms(few=8, many=40):
    """Forward and backward of one expert of the loop."""
    low_s = []
    for experts in (few, many):
        block, hidden = ExpertLoop(experts).bfloat16(), torch.randn(64, 64).bfloat16().requires_grad_()
        times = ([], [])
        for _ in range(REPEATS):
            start = time.thread_time()
            loss = block(hidden).sum()
            middle = time.thread_time()
            loss.backward()
            times[0].append(middle - start)
            times[1].append(time.thread_time() - middle)
        low_s.append([low(t) for t in times])
    return [round(1e3 * (b - a) / (many - few), 3) for a, b in zip(*low_s)]


def zero_of(layers, checkpoint, stage):
    import deepspeed
    model, _ = model_of(layers, checkpoint)
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-4),
        config={"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 64, "bf16": {"enabled": True},
                "zero_allow_untested_optimizer": True,
                "zero_optimization": {"stage": stage, "overlap_comm": False, "stage3_param_persistence_threshold": 0}})
    return engine, engine.backward


def fsdp_of(layers, checkpoint):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    model, backward = model_of(layers, checkpoint)
    mesh = init_device_mesh("cpu", (1,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh), backward


def low(times):
    """A low quantile: other programs on the machine only add."""
    return statistics.quantiles(times[5:], n=10)[0]


def passes_s(model, backward):
    tokens = torch.randint(0, 64, (1, 4))
    forward, back = [], []
    for _ in range(REPEATS):
        start = time.thread_time()
        loss = model(input_ids=tokens, labels=tokens).loss
        middle = time.thread_time()
        backward(loss)
        forward.append(middle - start)
        back.append(time.thread_time() - middle)
    return low(forward), low(back)


def layer_ms(make):
    few, many = (passes_s(*make(layers)) for layers in (FEW, MANY))
    return [round(1e3 * (b - a) / (MANY - FEW), 3) for a, b in zip(few, many)]


def main():
    torch.distributed.init_process_group("gloo")
    rows = {"plain": lambda n: model_of(n), "checkpoint": lambda n: model_of(n, True),
            "lora": lambda n: model_of(n, lora=True), "fsdp2": lambda n: fsdp_of(n, False),
            "fsdp2 checkpoint": lambda n: fsdp_of(n, True)}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    try:
        import deepspeed
        versions["deepspeed"] = deepspeed.__version__
        for stage in (2, 3):
            rows[f"zero-{stage}"] = lambda n, s=stage: zero_of(n, False, s)
            rows[f"zero-{stage} checkpoint"] = lambda n, s=stage: zero_of(n, True, s)
    except ImportError:
        print("no deepspeed: its rows are left out")
    measured = {}
    for name, make in rows.items():
        forward, backward = layer_ms(make)
        measured[name] = {"forward_ms": forward, "backward_ms": backward}
        print(f"{name:20} forward {forward} ms, backward {backward} ms a layer", flush=True)
    forward, backward = expert_ms()
    print(f"expert of a loop: forward {forward} ms, backward {backward} ms", flush=True)
    expert = {"forward_ms": forward, "backward_ms": backward, "beside_plain": measured["plain"]}
    with open(os.path.join(HERE, "host", "launches.json"), "w", encoding="utf-8") as out:
        json.dump({"_doc": "host.py: CPU time of one Qwen2 layer of no size on one thread", "versions": versions,
                   "python": platform.python_version(), "layers": measured,
                   "expert_of_a_loop": expert}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
