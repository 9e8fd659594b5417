#!/usr/bin/env python3
"""Records what autograd keeps of one layer of real Hugging Face models, for tests/model/test_oracle.c.

A development tool: no build, test or program needs it. It wants the packages of requirements.txt and a CPU, downloads
nothing (the weights are random) and writes results/FAMILY.json and configs/FAMILY-SHAPE.json beside itself.

    python3 tests/oracle/saved_tensors.py            every family
    python3 tests/oracle/saved_tensors.py llama ...  these
"""

import gc
import json
import os
import platform
import sys
import warnings

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore")
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import CONFIG_MAPPING, AutoModelForCausalLM  # noqa: E402

import cases  # noqa: E402
import explain  # noqa: E402
import standin  # noqa: E402
from count import Alive, Kept, autocast, grouped  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"sdpa": "sdpa", "eager": "eager", "fa2": "flash_attention_2"}
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
# the modules that our seven adapter targets mean in each family
MODULES = {
    "q": ["q_proj", "q_a_proj", "q_b_proj"], "k": ["k_proj", "kv_a_proj_with_mqa"], "v": ["v_proj", "kv_b_proj"],
    "o": ["o_proj"], "gate": ["gate_proj"], "up": ["up_proj"], "down": ["down_proj"],
}


def config_of(family, shape):
    model_type, keys, _, _ = cases.FAMILIES[family]
    return {"model_type": model_type} | keys(shape)


def build(family, shape, attention, layers):
    keys = config_of(family, shape)
    config = CONFIG_MAPPING[keys.pop("model_type")](**keys, num_hidden_layers=layers)
    torch.manual_seed(0)
    config._attn_implementation = NAMES[attention]
    return AutoModelForCausalLM.from_config(config, attn_implementation=NAMES[attention], dtype=torch.bfloat16)


def quantise(model):
    """Every linear of the layers in NF4, as bitsandbytes replaces them when a model is loaded in 4 bit."""
    import bitsandbytes

    for name, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or name.endswith("lm_head"):
            continue
        four = bitsandbytes.nn.Linear4bit(module.in_features, module.out_features, bias=module.bias is not None,
                                          compute_dtype=torch.bfloat16, quant_type="nf4")
        four.weight = bitsandbytes.nn.Params4bit(module.weight.data, requires_grad=False, quant_type="nf4")
        if module.bias is not None:
            four.bias = module.bias
        model.set_submodule(name, four.to("cpu"))
    return model


def modules_of(model, targets):
    """Full names of the linears: peft turns the short ones into parameters of fused experts."""
    wanted = {leaf for target in targets for leaf in MODULES[target]}
    return [name for name, _ in model.named_modules() if name.rsplit(".", 1)[-1] in wanted]


def adapt(model, adapter):
    from peft import LoraConfig, get_peft_model

    rank, dropout, fp32, _, quantised, targets = cases.ADAPTERS[adapter]
    if quantised:
        model = quantise(model)
    lora = LoraConfig(r=rank, lora_dropout=dropout, target_modules=modules_of(model, targets))
    model = get_peft_model(model, lora, autocast_adapter_dtype=fp32)
    model.enable_input_require_grads()
    return model


def run(family, shape, attention, adapter, checkpointing, layers):
    """What the forward of a model keeps."""
    tokens, sequences = cases.SHAPES[shape][5:]
    model = build(family, shape, attention, layers)
    if adapter and not modules_of(model, cases.ADAPTERS[adapter][5]):
        return None  # fused experts have no linear to adapt
    if adapter:
        model = adapt(model, adapter)
    if checkpointing != "none":
        model.gradient_checkpointing_enable({"use_reentrant": checkpointing == "full-reentrant"})
        model.enable_input_require_grads()
    model.train()
    inputs = {"input_ids": torch.randint(3, 256, (sequences, tokens))}
    adapted = [name for name, module in model.named_modules() if hasattr(module, "lora_A")]
    gc.collect()
    alive = Alive()
    with Kept(model, inputs.values()) as kept, alive, autocast(bool(adapter) and cases.ADAPTERS[adapter][3]):
        alive.skip([*model.parameters(), *model.buffers(), *inputs.values()])
        out = model(**inputs, use_cache=False)
    kept.alive_bytes = alive.now
    del out
    kept.adapted = adapted
    return kept


def case(family, shape, attention, adapter, checkpointing):
    one = run(family, shape, attention, adapter, checkpointing, 1)
    if one is None:
        return None
    kept = run(family, shape, attention, adapter, checkpointing, 2)
    rows = kept.of_layer(1, 2)
    layer_bytes = sum(row[0] for row in rows)
    totals = [sum(row[0] for row in k.rows.values()) for k in (one, kept)]
    parts = [shape, attention, adapter or "full"] + ([] if checkpointing == "none" else ["checkpointing-" + checkpointing])
    record = {"id": "-".join(parts), "config": f"{family}-{shape}.json"}
    record |= dict(zip(("tokens", "sequences"), cases.SHAPES[shape][5:]))
    record |= {"attention": attention, "checkpointing": checkpointing, "method": "full"}
    if adapter:
        rank, dropout, fp32, cast, quantised, targets = cases.ADAPTERS[adapter]
        linears = {name.rsplit(".", 1)[-1] for name in kept.adapted}
        targets = [target for target in targets if linears & set(MODULES[target])]
        record |= {"method": "qlora" if quantised else "lora", "rank": rank, "dropout": dropout, "fp32_adapters": fp32,
                   "autocast": cast, "targets": targets}
    record |= {"layer_bytes": layer_bytes, "outside_bytes": totals[1] - 2 * layer_bytes,
               "tensors": grouped(rows)}
    if shape == "small" and not adapter:
        record["outside"] = grouped(kept.outside(2))
    # one more layer costs what the layer was said to keep, and nothing but what is saved stays alive
    record["growth_bytes"] = totals[1] - totals[0]
    record["alive_growth_bytes"] = kept.alive_bytes - one.alive_bytes
    keys = config_of(family, shape)
    moe = any(row["tensor"].startswith("mlp.experts") for row in record["tensors"])
    experts = next(keys[k] for k in EXPERTS if k in keys) if moe else 0
    record["explained"] = explain.differences(record, experts, keys.get("num_experts_per_tok"))
    return record


def versions():
    found = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__}
    for name in ("peft", "bitsandbytes"):
        found[name] = __import__(name).__version__
    return found


def write(path, value, lines=False):
    text = one_line_rows(value) if lines else json.dumps(value, indent=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def one_line_rows(value):
    head = {k: v for k, v in value.items() if k != "cases"}
    out = json.dumps(head, indent=1)[:-2] + ',\n "cases": ['
    blocks = []
    for record in value["cases"]:
        plain = {k: v for k, v in record.items() if k not in ("tensors", "outside", "explained")}
        block = "\n  {" + json.dumps(plain)[1:-1]
        for key in ("tensors", "outside", "explained"):
            if key not in record:
                continue
            rows = ",\n    ".join(json.dumps(row) for row in record[key])
            block += f',\n   "{key}": [' + (f"\n    {rows}" if rows else "") + "]"
        blocks.append(block + "}")
    return out + ",".join(blocks) + "]}"


def main():
    standin.install()
    transformers.logging.set_verbosity_error()
    transformers.PreTrainedModel._flash_attn_can_dispatch = lambda *args, **kwargs: True
    torch.set_num_threads(1)
    for family in sys.argv[1:] or cases.FAMILIES:
        records = []
        for shape in cases.SHAPES:
            write(os.path.join(HERE, "configs", f"{family}-{shape}.json"), config_of(family, shape) | {"num_hidden_layers": 2})
        for arguments in cases.of_family(family):
            try:
                record = case(family, *arguments)
                records += [record] if record else []
            except Exception as error:  # a case that the library refuses is reported, not recorded
                print(family, *arguments, "not run:", type(error).__name__, str(error)[:300], file=sys.stderr)
            gc.collect()
        bad = [r["id"] for r in records if {r["growth_bytes"], r["alive_growth_bytes"]} != {r["layer_bytes"]}]
        print(f"{family}: {len(records)} cases" + (f", layers do not add up in {bad}" if bad else ""))
        write(os.path.join(HERE, "results", f"{family}.json"),
              {"family": family, "versions": versions(), "cases": records}, lines=True)


if __name__ == "__main__":
    main()
