"""What Hugging Face transformers computes in a few training steps, for tests/exec/test_numerics.c to hold the engine to.

A development script (torch and transformers on a CPU; no test runs it): each family of the zoo is built small by its real
class, given the weights, token ids, positions and documents that the engine of exec/ starts from, and trained in fp64 (where
the class itself computes in fp32, its norms and rotary tables, that stays). What is recorded: the loss of each step, and of
every row of the model's list of weights the norm of its first gradient, two signed sums of it, and the same of how far the
weight moved in three steps of torch.optim.AdamW.

    python3 tests/oracle/numerics.py [NAME...]        writes tests/oracle/numerics/NAME.json, without NAME all of them

A record is the config.json of the small model with one member more, "numerics"; its rows are name, elements, norm and two sums
of the gradient, norm and sum of the movement. It was made with torch 2.15.0 and
transformers 5.24.0, attention "eager" but where a case says otherwise.

From our rows to theirs (model/arch_weights.c lists ours; `rows_of` below says which parameter each is):

* Elements are numbered through the model: rows outside the layers, then layer by layer, each [copies][rows][cols].
* qkv_proj is q, then k, then v. GPT-2 has the columns of c_attn so; NeoX interleaves q, k, v head by head, Falcon group by
  group (the queries of a group, its k, its v); MPT, Phi-3 and Falcon 7B have ours.
* gate_up_proj is all gates, then all ups; gpt-oss interleaves them. Experts lie one after the other in each of our rows.
* Linear layers are [out][in]; Conv1D of GPT-2 and the experts of gpt-oss and Llama 4 are [in][out].
* Norms go by their place: GLM-4's post_self_attn_layernorm is our post_attention_layernorm, its post_attention_layernorm
  our pre_mlp_layernorm; OLMo 2's two norms stand behind attention and behind the MLP.

Documents are run one by one from position 0, which is what packed ones mean. Every token predicts the next one of the text,
the last of a document too; the loss is the mean over all tokens of a step. Where a class would leave a token's embedding
out of training (padding_idx) that is turned off, as is dropout (eval mode).

Not in transformers, remote code beside the checkpoint: Baichuan, ChatGLM, InternLM, InternLM 2 and Qwen (1). Classes that compute the
same stand in for ChatGLM 3 (GLM), Baichuan-7B, InternLM and InternLM 2 (Llama) and Qwen (Qwen2). None does for Baichuan-13B (linear
biases: MPT and Falcon show these) nor for Baichuan 2, whose head has rows of length 1 (NormHead). InternLM 3 is read as Llama by
transformers: left out.
"""

import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "numerics")
STEPS = 3
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-3, "weight_decay": 0.1}  # exec/states.c adamw
PROBES, PROBE_STRIDE = 2, 1 << 40

# Sizes of which no two are equal, so that nothing transposed can fit.
SHAPE = {"hidden_size": 40, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 72, "max_position_embeddings": 64}
NO_HEAD_DIM = {k: v for k, v in dict(SHAPE, hidden_size=32).items() if k != "head_dim"}
ROPE = {"rope_theta": 500.0}
UNTIED, TIED = {"tie_word_embeddings": False}, {"tie_word_embeddings": True}
PACKED = {"tokens": 24, "documents": [9, 4, 11, 6, 13], "grad_accum": 2}
WHOLE = {"tokens": 20, "documents": [], "grad_accum": 2}


def uniform(number):
    """splitmix64 of the numbers, to [-1, 1): exec/weights.c uniform."""
    z = np.asarray(number).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0 ** -52 - 1.0


def token(number, vocab):
    """Token of the endless text: exec/batch.c."""
    z = np.asarray(number).astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93) + np.uint64(1)
    z = (z ^ (z >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    z = z ^ (z >> np.uint64(32))
    return (z % np.uint64(vocab)).astype(np.int64)


# --- rows of the model's list, and the parameters they are ---


class Row:
    """copies x [rows][cols]; `parts`: (parameter, index into it, the row's numbers in that place)."""

    def __init__(self, name, shape, parts):
        self.name, self.shape, self.parts = name, shape, parts
        self.elements = int(np.prod(shape))


def whole(parameter):
    return [(parameter, ..., lambda n: n)]


def turned(parameter):
    """[out][in] to [in][out], copy by copy."""
    return [(parameter, ..., lambda n: n.swapaxes(-1, -2))]


def matrix(out, width, copies=1):
    return (copies, out, width)


def vector(length, copies=1):
    return (copies, length, 1)


def joined_qkv(parameter, heads, kv_heads, dim, layout):
    def groups(n):
        cols = n.shape[-1]
        q, k, v = np.split(n.reshape(-1, cols), [heads * dim, (heads + kv_heads) * dim])
        parts = [x.reshape(kv_heads, -1, dim, cols) for x in (q, k, v)]
        return np.concatenate(parts, axis=1).reshape(-1, cols)

    return {"plain": whole(parameter), "turned": turned(parameter), "groups": [(parameter, ..., groups)]}[layout]


# --- families: names of the parameters, by the rows of model/arch_weights.c ---

LLAMA = {
    "layer": "model.layers.{}.", "embed_tokens": "model.embed_tokens.weight", "norm": "model.norm.weight",
    "lm_head": "lm_head.weight", "norms": ["input_layernorm", "post_attention_layernorm"],
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight", "gate": "mlp.gate_proj",
    "up": "mlp.up_proj", "down": "mlp.down_proj", "router": "mlp.gate.weight", "experts": "mlp.experts.",
    "shared": "mlp.shared_experts.",
}
GPT2 = dict(LLAMA, layer="transformer.h.{}.", embed_tokens="transformer.wte.weight",
            embed_positions="transformer.wpe.weight", norm="transformer.ln_f.weight", norms=["ln_1", "ln_2"],
            qkv="attn.c_attn", o="attn.c_proj", up="mlp.c_fc", down="mlp.c_proj", conv1d=True)
FALCON = dict(LLAMA, layer="transformer.h.{}.", embed_tokens="transformer.word_embeddings.weight",
              norm="transformer.ln_f.weight", norms=["input_layernorm"], qkv="self_attention.query_key_value",
              o="self_attention.dense", up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h")
GEMMA2 = dict(LLAMA, norms=["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                            "post_feedforward_layernorm"])
NAMES = {
    "llama": LLAMA, "gpt2": GPT2, "gpt_bigcode": dict(GPT2, conv1d=False),
    "qwen2_moe": dict(LLAMA, shared="mlp.shared_expert."),
    "phi3": dict(LLAMA, qkv="self_attn.qkv_proj", gate_up="mlp.gate_up_proj"),
    "glm": dict(LLAMA, gate_up="mlp.gate_up_proj"),
    "glm4": dict(LLAMA, gate_up="mlp.gate_up_proj", norms=["input_layernorm", "post_self_attn_layernorm",
                                                            "post_attention_layernorm", "post_mlp_layernorm"]),
    "opt": dict(LLAMA, layer="model.decoder.layers.{}.", embed_tokens="model.decoder.embed_tokens.weight",
                embed_positions="model.decoder.embed_positions.weight", norm="model.decoder.final_layer_norm.weight",
                norms=["self_attn_layer_norm", "final_layer_norm"], o="self_attn.out_proj", up="fc1", down="fc2"),
    "gpt_neox": dict(LLAMA, layer="gpt_neox.layers.{}.", embed_tokens="gpt_neox.embed_in.weight",
                     norm="gpt_neox.final_layer_norm.weight", qkv="attention.query_key_value", o="attention.dense",
                     up="mlp.dense_h_to_4h", down="mlp.dense_4h_to_h", qkv_layout="groups"),
    "gptj": dict(LLAMA, layer="transformer.h.{}.", embed_tokens="transformer.wte.weight", norm="transformer.ln_f.weight",
                 norms=["ln_1"], q="attn.q_proj", k="attn.k_proj", v="attn.v_proj", o="attn.out_proj", up="mlp.fc_in",
                 down="mlp.fc_out"),
    "falcon-7b": FALCON, "falcon-rw": dict(FALCON, norms=["input_layernorm", "post_attention_layernorm"], qkv_layout="groups"),
    "falcon-40b": dict(FALCON, norms=["ln_attn", "ln_mlp"], qkv_layout="groups"),
    "phi": dict(LLAMA, norm="model.final_layernorm.weight", norms=["input_layernorm"], o="self_attn.dense", up="mlp.fc1",
                down="mlp.fc2"),
    "joined": dict(LLAMA, joins_qkv=True),
    "chatglm": dict(LLAMA, joins_qkv=True, gate_up="mlp.gate_up_proj"),
    "granitemoe": dict(LLAMA, router="block_sparse_moe.router.weight", experts="block_sparse_moe.experts.",
                       joined_experts=True),
    "starcoder2": dict(LLAMA, up="mlp.c_fc", down="mlp.c_proj"),
    "cohere": dict(LLAMA, norms=["input_layernorm"]),
    "gemma2": GEMMA2, "gemma3_text": GEMMA2,
    "olmo": dict(LLAMA, norm=None, norms=[]),
    "olmo2": dict(LLAMA, norms=["post_attention_layernorm", "post_feedforward_layernorm"]),
    "mpt": dict(LLAMA, layer="transformer.blocks.{}.", embed_tokens="transformer.wte.weight",
                norm="transformer.norm_f.weight", norms=["norm_1", "norm_2"], qkv="attn.Wqkv", o="attn.out_proj",
                up="ffn.up_proj", down="ffn.down_proj"),
    "gpt_oss": dict(LLAMA, router="mlp.router.weight", turned_experts=True, interleaved_experts=True),
    "llama4_text": dict(LLAMA, router="feed_forward.router.weight", experts="feed_forward.experts.",
                        shared="feed_forward.shared_expert.", gate="feed_forward.gate_proj", up="feed_forward.up_proj",
                        down="feed_forward.down_proj", turned_experts=True),
}
# Added to the weights of norms where they are used.
NORM_OFFSET = {"gemma": 1, "gemma2": 1, "gemma3_text": 1, "nemotron": 1}
NORM_ROWS = ["input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"]


class Builder:
    """Rows in the order of model/arch_weights.c, from a model and the names of its family."""

    def __init__(self, names, config, parameters):
        self.names, self.config, self.parameters, self.rows = names, config, parameters, []

    def get(self, *keys, default=None):
        for key in keys:
            if getattr(self.config, key, None) is not None:
                return getattr(self.config, key)
        return default

    def add(self, name, shape, parts):
        self.rows.append(Row(name, shape, parts))

    def plain(self, name, parameter, linear=False):
        """A parameter as it is, where the model has it."""
        if parameter not in self.parameters:
            return
        shape = self.parameters[parameter].shape
        if linear and self.names.get("conv1d"):
            self.add(name, matrix(shape[1], shape[0]), turned(parameter))
        else:
            is_matrix = len(shape) == 2 and not name.endswith("_norm")  # Cohere's have a row for each head
            self.add(name, matrix(*shape) if is_matrix else vector(int(np.prod(shape))), whole(parameter))

    def linear(self, name, module):
        self.plain(name, module + ".weight", linear=True)
        self.plain(name + ".bias", module + ".bias")

    def outer(self):
        n = self.names
        self.plain("embed_tokens", n["embed_tokens"])
        self.plain("embed_positions", n.get("embed_positions"))
        if n["norm"]:
            self.plain("norm", n["norm"])
            self.plain("norm.bias", n["norm"].replace(".weight", ".bias"))
        self.plain("lm_head", n["lm_head"])
        self.plain("lm_head.bias", n["lm_head"].replace(".weight", ".bias"))

    def attention(self, at):
        n = self.names
        if at + "self_attn.kv_b_proj.weight" in self.parameters:
            return self.latent(at)
        if n.get("joins_qkv"):
            self.joined(at)
        elif "qkv" in n:
            self.qkv(at)
        else:
            for row in "qkv":
                self.plain(row + "_proj", at + n[row] + ".weight")
            for row in "qkv":
                self.plain(row + "_proj.bias", at + n[row] + ".bias")
        self.plain("q_norm", at + n["q_norm"])
        self.plain("k_norm", at + n["k_norm"])
        self.linear("o_proj", at + n["o"])
        self.plain("sinks", at + "self_attn.sinks")

    def joined(self, at):
        """A row that joins q, k and v, of parameters that do not."""
        names = [at + self.names[x] for x in "qkv"]
        for row, suffix in (("qkv_proj", ".weight"), ("qkv_proj.bias", ".bias")):
            if names[0] + suffix not in self.parameters:
                continue
            shapes = [self.parameters[name + suffix].shape for name in names]
            ends = np.cumsum([shape[0] for shape in shapes])
            shape = matrix(int(ends[-1]), shapes[0][1]) if len(shapes[0]) == 2 else vector(int(ends[-1]))
            self.add(row, shape, [(name + suffix, ..., lambda n, a=end - part[0], b=end: n[:, a:b])
                                  for name, end, part in zip(names, ends, shapes)])

    def qkv(self, at):
        heads = self.get("num_attention_heads", "n_head", "n_heads")
        hidden = self.get("hidden_size", "n_embd", "d_model")
        dim = self.get("head_dim", default=hidden // heads)
        width = max(self.parameters[at + self.names["qkv"] + ".weight"].shape[0 if not self.names.get("conv1d") else 1], 1)
        kv_heads = (width // dim - heads) // 2
        layout = self.names.get("qkv_layout", "plain")
        self.add("qkv_proj", matrix(width, hidden),
                 joined_qkv(at + self.names["qkv"] + ".weight", heads, kv_heads, dim,
                            "turned" if self.names.get("conv1d") else layout))
        if at + self.names["qkv"] + ".bias" in self.parameters:
            self.add("qkv_proj.bias", vector(width),
                     joined_qkv(at + self.names["qkv"] + ".bias", heads, kv_heads, dim, layout))

    def latent(self, at):
        at += "self_attn."
        for row, module in (("q_a_proj", "q_a_proj"), ("q_a_layernorm", "q_a_layernorm"), ("q_b_proj", "q_b_proj"),
                            ("q_proj", "q_proj"), ("kv_a_proj", "kv_a_proj_with_mqa"), ("kv_a_layernorm", "kv_a_layernorm"),
                            ("kv_b_proj", "kv_b_proj"), ("o_proj", "o_proj")):
            self.linear(row, at + module)

    def mlp(self, at):
        n = self.names
        if "gate_up" in n:
            self.linear("gate_up_proj", at + n["gate_up"])
        elif n.get("turned_experts") and at + n["gate"] + ".weight" in self.parameters:
            self.halves(at + n["gate"], at + n["up"])
        else:
            self.linear("gate_proj", at + n["gate"])
            self.linear("up_proj", at + n["up"])
        self.linear("down_proj", at + n["down"])

    def halves(self, gate, up):
        """One row of ours, two parameters of theirs."""
        ffn, hidden = self.parameters[gate + ".weight"].shape
        self.add("gate_up_proj", matrix(2 * ffn, hidden),
                 [(gate + ".weight", ..., lambda n: n[:, :ffn]), (up + ".weight", ..., lambda n: n[:, ffn:])])

    def experts(self, at):
        n, at_experts = self.names, at + self.names["experts"]
        self.plain("router", at + n["router"])
        self.plain("router.bias", at + n["router"].replace(".weight", ".bias"))
        gate_up, down = at_experts + "gate_up_proj", at_experts + "down_proj"
        if n.get("turned_experts"):
            self.turned_experts(gate_up, down, n.get("interleaved_experts", False))
        elif n.get("joined_experts"):
            copies, ffn2, hidden = self.parameters[gate_up].shape
            self.add("gate_up_proj", matrix(ffn2, hidden, copies), whole(gate_up))
            self.add("down_proj", matrix(hidden, ffn2 // 2, copies), whole(down))
        else:
            copies, ffn2, hidden = self.parameters[gate_up].shape
            ffn = ffn2 // 2
            self.add("gate_proj", matrix(ffn, hidden, copies), [(gate_up, np.s_[:, :ffn], lambda x: x)])
            self.add("up_proj", matrix(ffn, hidden, copies), [(gate_up, np.s_[:, ffn:], lambda x: x)])
            self.add("down_proj", matrix(hidden, ffn, copies), whole(down))
        self.shared(at)

    def turned_experts(self, gate_up, down, interleaved):
        copies, hidden, ffn2 = self.parameters[gate_up].shape
        ffn = ffn2 // 2

        def weave(x):  # rows of all gates, then of all ups
            return np.stack([x[:, :ffn], x[:, ffn:]], axis=2).reshape(x.shape) if interleaved else x

        self.add("gate_up_proj", matrix(ffn2, hidden, copies), [(gate_up, ..., lambda x: weave(x).swapaxes(1, 2))])
        if gate_up + "_bias" in self.parameters:
            self.add("gate_up_proj.bias", vector(ffn2, copies), [(gate_up + "_bias", ..., weave)])
        self.add("down_proj", matrix(hidden, ffn, copies), turned(down))
        if down + "_bias" in self.parameters:
            self.add("down_proj.bias", vector(hidden, copies), whole(down + "_bias"))

    def shared(self, at):
        at_shared = at + self.names["shared"]
        if at_shared + "gate_proj.weight" not in self.parameters:
            return
        if self.names.get("turned_experts"):
            self.halves(at_shared + "gate_proj", at_shared + "up_proj")
        else:
            self.linear("gate_proj", at_shared + "gate_proj")
            self.linear("up_proj", at_shared + "up_proj")
        self.linear("down_proj", at_shared + "down_proj")
        self.plain("shared_expert_gate", at + "mlp.shared_expert_gate.weight")

    def layer(self, i):
        at, n = self.names["layer"].format(i), self.names
        for row, module in zip(NORM_ROWS, n["norms"]):
            self.plain(row, at + module + ".weight")
            self.plain(row + ".bias", at + module + ".bias")
        self.attention(at)
        if at + n["router"] in self.parameters:
            self.experts(at)
        else:
            self.mlp(at)


def rows_of(model, names, layers):
    b = Builder(names, model.config, dict(model.named_parameters()))
    b.outer()
    for i in range(layers):
        first = len(b.rows)
        b.layer(i)
        for row in b.rows[first:]:
            row.name = f"{i}.{row.name}"
    return b.rows


def start(row, numbers, norm_offset):
    """First values: exec/weights.c spp_weight_initial."""
    name, u = row.name, uniform(numbers)
    if name == "embed_tokens":
        return u
    if row.shape[2] > 1 and name != "embed_positions":
        return u * np.sqrt(3.0 / row.shape[2])
    scales = "norm" in name and not name.endswith(".bias")
    return 1.0 - norm_offset + 0.1 * u if scales else 0.1 * u


class Placed:
    """Where each parameter's elements are numbered, and the first values of all."""

    def __init__(self, model, rows, norm_offset):
        self.parameters, self.rows = dict(model.named_parameters()), rows
        self.numbers = {k: np.full(p.shape, -1, np.int64) for k, p in self.parameters.items()}
        self.firsts, at = [], 0
        self.values = np.empty(sum(r.elements for r in rows))
        for row in rows:
            self.firsts.append(at)
            numbers = np.arange(at, at + row.elements).reshape(row.shape)
            for parameter, index, place in row.parts:
                target = self.numbers[parameter][index]
                self.numbers[parameter][index] = place(numbers).reshape(target.shape)
            self.values[at:at + row.elements] = start(row, numbers.ravel(), norm_offset).astype(np.float32)
            at += row.elements
        missing = [k for k, n in self.numbers.items() if (n < 0).any()]
        flat = np.concatenate([n.ravel() for n in self.numbers.values()])
        assert not missing and len(np.unique(flat)) == at == len(flat), f"rows and parameters differ: {missing}"
        with torch.no_grad():
            for k, p in self.parameters.items():
                p.copy_(torch.from_numpy(self.values[self.numbers[k]]))

    def gather(self, tensor_of):
        flat = np.zeros_like(self.values)
        for k, p in self.parameters.items():
            t = tensor_of(p)
            if t is not None:
                flat[self.numbers[k]] = t.detach().double().numpy()
        return flat


# --- training ---


def documents_of(batch):
    """(sequence of the step, first place in it, tokens) of each document: exec/batch.c pack."""
    sequences, fill = [[]], 0
    for length in batch["documents"] or [batch["tokens"]]:
        if fill + length > batch["tokens"]:
            sequences.append([])
            fill = 0
        sequences[-1].append((fill, length))
        fill += length
    return [(s, first, length) for s in range(batch["grad_accum"]) for first, length in sequences[s % len(sequences)]]


def loss_of(model, batch, vocab):
    total, count = 0, 0
    for sequence, first, length in documents_of(batch):
        number = sequence * batch["tokens"] + first + np.arange(length)
        ids, targets = token(number, vocab), token(number + 1, vocab)
        logits = model(input_ids=torch.from_numpy(ids)[None], use_cache=False).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits.double(), torch.from_numpy(targets), reduction="sum")
        count += length
    return total / count


def summary(values, probes):
    """Norm, and the products with vectors that count from each row's first element."""
    sums = [float(values @ uniform(np.arange(len(values)) + (k + 1) * PROBE_STRIDE)) for k in range(probes)]
    return [float(f"{x:.5g}") for x in [float(np.linalg.norm(values))] + sums]


def record(case):
    config = case["config"]
    given = dict({k: v for k, v in config.items() if k != "model_type"}, **case["extra"])
    made = AutoConfig.for_model(case["of"] or config["model_type"], **given)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(made, attn_implementation=case["attention"], experts_implementation="eager")
    model = model.double().eval()
    layers = next(config[k] for k in ("num_hidden_layers", "n_layer", "n_layers", "num_layers") if k in config)
    vocab = made.vocab_size
    placed = Placed(model, rows_of(model, NAMES[case["names"]], layers), NORM_OFFSET.get(config["model_type"], 0))
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    losses, gradient = [], None
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, case["batch"], vocab)
        loss.backward()
        if gradient is None:
            gradient = placed.gather(lambda p: p.grad)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        losses.append(loss_of(model, case["batch"], vocab).item())
    moved = placed.gather(lambda p: p) - placed.values
    rows = []
    for row, first in zip(placed.rows, placed.firsts):
        part = slice(first, first + row.elements)
        rows.append([row.name, row.elements, *summary(gradient[part], PROBES), *summary(moved[part], 1)])
    return dict(config, numerics={"class": type(model).__name__, **case["batch"],
                                  "start": summary(placed.values, 1), "losses": [float(f"{x:.9g}") for x in losses],
                                  "rows": rows})


def text_of(document):
    """One line for each row."""
    n = dict(document["numerics"])
    rows = ",\n".join(json.dumps(r, separators=(",", ":")) for r in n.pop("rows"))
    head = "".join(f"  {json.dumps(k)}: {json.dumps(v)},\n" for k, v in document.items() if k != "numerics")
    body = "".join(f"    {json.dumps(k)}: {json.dumps(v)},\n" for k, v in n.items())
    return f'{{\n{head}  "numerics": {{\n{body}    "rows": [\n{rows}]\n  }}\n}}\n'


def case(model_type, names="llama", batch=PACKED, of=None, extra=None, attention="eager", **config):
    """`of`: the class's model type where it is not the config's own; `extra`: for the class alone."""
    extra = dict({"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}, **(extra or {}))
    return {"config": {"model_type": model_type, **config}, "names": names, "batch": batch, "of": of, "extra": extra,
            "attention": attention}


EXPERTS = {"moe_intermediate_size": 24, "num_experts_per_tok": 2}
GROUPED = {**EXPERTS, "n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2}
LATENT = {"kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
NO_KV_HEADS = {k: v for k, v in NO_HEAD_DIM.items() if k != "num_key_value_heads"}
WIDE_MHA = dict(NO_KV_HEADS, hidden_size=64)  # 16 a head
WIDE = dict(WIDE_MHA, num_key_value_heads=2)
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 72}
RMS5, RMS6, LN = {"rms_norm_eps": 1e-5}, {"rms_norm_eps": 1e-6}, {"layer_norm_eps": 1e-5}

CASES = {
    # Llama and what is built like it
    "llama": case("llama", **SHAPE, **ROPE, **UNTIED, **RMS5),
    "llama-biases": case("llama", batch=WHOLE, **SHAPE, **ROPE, **TIED, rms_norm_eps=1e-3, attention_bias=True, mlp_bias=True),
    "llama3.1": case("llama", batch=WHOLE, **SHAPE, rope_theta=500.0, **UNTIED, **RMS5, rope_scaling={
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 24}),
    "mistral-window": case("mistral", **SHAPE, **ROPE, **UNTIED, **RMS5, sliding_window=5),
    "qwen2": case("qwen2", **NO_HEAD_DIM, **ROPE, **TIED, **RMS6),
    "qwen2-window": case("qwen2", **NO_HEAD_DIM, **ROPE, **UNTIED, **RMS6, use_sliding_window=True, sliding_window=5,
                         max_window_layers=1),
    "qwen2.5": case("qwen2", batch=WHOLE, **NO_HEAD_DIM, rope_theta=1000000.0, **UNTIED, **RMS6),
    "qwen3": case("qwen3", **SHAPE, **ROPE, **TIED, **RMS6),
    "qwen3-yarn": case("qwen3", batch=WHOLE, **SHAPE, **ROPE, **UNTIED, **RMS6, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "original_max_position_embeddings": 16}),
    "phi3": case("phi3", names="phi3", **WIDE, **ROPE, **UNTIED, **RMS5, sliding_window=5),
    "phi4-mini": case("phi3", names="phi3", batch=WHOLE, **WIDE, **ROPE, **TIED, **RMS5, partial_rotary_factor=0.75),
    "granite": case("granite", **NO_HEAD_DIM, **ROPE, **TIED, **RMS5, attention_multiplier=0.25, embedding_multiplier=3.0,
                    residual_multiplier=0.5, logits_scaling=2.0),
    "smollm3": case("smollm3", **dict(WIDE, num_hidden_layers=4), **ROPE, **TIED, **RMS6, no_rope_layer_interval=4),
    "seed-oss": case("seed_oss", **SHAPE, **ROPE, **UNTIED, **RMS6, attention_bias=True, attention_out_bias=True),
    "ernie4.5": case("ernie4_5", **SHAPE, **ROPE, **TIED, **RMS5, use_bias=True),
    "exaone4": case("exaone4", **dict(SHAPE, num_hidden_layers=4), **ROPE, **UNTIED, **RMS5, sliding_window=5,
                    sliding_window_pattern=4, names="olmo2"),
    # stand-ins for remote code that computes what these classes do
    "internlm": case("internlm", of="llama", batch=WHOLE, **NO_KV_HEADS, **ROPE, **UNTIED, **RMS6, bias=True,
                     extra={"attention_bias": True}),
    "internlm2": case("internlm2", of="llama", names="joined", **NO_HEAD_DIM, **ROPE, **UNTIED, **RMS5, bias=False),
    "baichuan-7b": case("baichuan", of="llama", names="joined", batch=WHOLE, **NO_KV_HEADS, **UNTIED, **RMS6),
    "qwen": case("qwen", of="qwen2", names="joined", **dict(NO_KV_HEADS, intermediate_size=96), rotary_emb_base=500.0, **UNTIED,
                 layer_norm_epsilon=1e-6, no_bias=True, extra={"num_key_value_heads": 4, "intermediate_size": 48,
                                                               "rope_theta": 500.0, "rms_norm_eps": 1e-6}),
    "chatglm3": case("chatglm", of="glm", names="chatglm", hidden_size=64, ffn_hidden_size=48, num_layers=2,
                     num_attention_heads=4, kv_channels=16, multi_query_attention=True, multi_query_group_num=2,
                     padded_vocab_size=72, seq_length=64, layernorm_epsilon=1e-5, rmsnorm=True, add_qkv_bias=True,
                     add_bias_linear=False, tie_word_embeddings=False,
                     extra={"intermediate_size": 48, "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16,
                            "vocab_size": 72, "rms_norm_eps": 1e-5, "attention_bias": True, "rope_theta": 10000.0}),
    # mixtures of experts
    "qwen3-moe": case("qwen3_moe", **SHAPE, **ROPE, **UNTIED, **EXPERTS, **RMS6, num_experts=4, norm_topk_prob=True),
    "qwen3-moe-defaults": case("qwen3_moe", batch=WHOLE, **SHAPE, **ROPE, **UNTIED, **EXPERTS, num_experts=4),
    "mixtral": case("mixtral", **SHAPE, **ROPE, **UNTIED, **RMS5, num_local_experts=4, num_experts_per_tok=2),
    "qwen2-moe": case("qwen2_moe", names="qwen2_moe", **NO_HEAD_DIM, **ROPE, **UNTIED, **EXPERTS, **RMS6, num_experts=4,
                      shared_expert_intermediate_size=40, mlp_only_layers=[0], norm_topk_prob=False),
    "granite-moe": case("granitemoe", names="granitemoe", **NO_HEAD_DIM, **ROPE, **TIED, **RMS6, num_local_experts=4,
                        num_experts_per_tok=2, attention_multiplier=0.25, embedding_multiplier=3.0, residual_multiplier=0.5,
                        logits_scaling=2.0),
    "glm4-moe": case("glm4_moe", **SHAPE, **ROPE, **UNTIED, **RMS5, **GROUPED, attention_bias=True, use_qk_norm=True,
                     partial_rotary_factor=0.5, norm_topk_prob=True, routed_scaling_factor=2.5),
    "olmoe": case("olmoe", **NO_HEAD_DIM, **ROPE, **UNTIED, **RMS5, num_experts=4, num_experts_per_tok=2),
    "minimax-m2": case("minimax_m2", **SHAPE, **ROPE, **UNTIED, **RMS6, num_local_experts=4, num_experts_per_tok=2, rotary_dim=8),
    "gpt-oss": case("gpt_oss", names="gpt_oss", **SHAPE, **ROPE, **UNTIED, **RMS5, num_local_experts=4, num_experts_per_tok=2,
                    sliding_window=5, rope_scaling={"rope_type": "yarn", "factor": 8.0, "beta_fast": 4.0, "beta_slow": 0.5,
                                                    "truncate": False, "original_max_position_embeddings": 16}),
    "llama4": case("llama4_text", names="llama4_text", **dict(SHAPE, num_hidden_layers=4), **ROPE, **UNTIED, **RMS5,
                   intermediate_size_mlp=56, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2,
                   attention_chunk_size=5, no_rope_layer_interval=4, use_qk_norm=False),
    "deepseek-v2": case("deepseek_v2", **NO_KV_HEADS, **ROPE, **UNTIED, **RMS6, **GROUPED, **LATENT, q_lora_rank=None,
                        topk_method="group_limited_greedy", routed_scaling_factor=16.0),
    "deepseek-v3": case("deepseek_v3", **NO_KV_HEADS, **ROPE, **UNTIED, **RMS6, **GROUPED, **LATENT, q_lora_rank=24,
                        scoring_func="sigmoid", topk_method="noaux_tc", norm_topk_prob=True, routed_scaling_factor=2.5,
                        num_nextn_predict_layers=0, extra={"num_key_value_heads": 4}, rope_scaling={
                            "type": "yarn", "factor": 8.0, "beta_fast": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5,
                            "original_max_position_embeddings": 16}),
    "glm4-moe-lite": case("glm4_moe_lite", batch=WHOLE, **NO_KV_HEADS, **ROPE, **UNTIED, **RMS5, **GROUPED, **LATENT,
                          q_lora_rank=24, norm_topk_prob=True, routed_scaling_factor=1.8, extra={"num_key_value_heads": 4}),
    # other blocks
    "gpt2": case("gpt2", names="gpt2", **GPT, n_positions=64, activation_function="gelu_new", layer_norm_epsilon=1e-5),
    "gpt-bigcode": case("gpt_bigcode", names="gpt_bigcode", **GPT, n_positions=64, activation_function="gelu_pytorch_tanh",
                        layer_norm_epsilon=1e-5, multi_query=True),
    "opt": case("opt", names="opt", hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=72,
                max_position_embeddings=64, word_embed_proj_dim=32, activation_function="relu", do_layer_norm_before=True, **TIED),
    "pythia": case("gpt_neox", names="gpt_neox", **WIDE_MHA, **UNTIED, **LN, rotary_emb_base=500, rotary_pct=0.25,
                   hidden_act="gelu", use_parallel_residual=True),
    "gpt-neox-serial": case("gpt_neox", names="gpt_neox", batch=WHOLE, **WIDE_MHA, **UNTIED, **LN, rotary_emb_base=500,
                            rotary_pct=1.0, hidden_act="gelu", use_parallel_residual=False),
    "gpt-j": case("gptj", names="gptj", n_embd=64, n_layer=2, n_head=4, vocab_size=72, n_positions=64, rotary_dim=8,
                  activation_function="gelu_new", layer_norm_epsilon=1e-5, **UNTIED),
    "falcon-7b": case("falcon", names="falcon-7b", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=72,
                      layer_norm_epsilon=1e-5, multi_query=True, parallel_attn=True, bias=False, alibi=False),
    "falcon-40b": case("falcon", names="falcon-40b", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
                       vocab_size=72, layer_norm_epsilon=1e-5, new_decoder_architecture=True, bias=False, alibi=False),
    # The eager attention of Falcon adds the linear biases twice: they are in its mask too.
    "falcon-rw": case("falcon", names="falcon-rw", attention="sdpa", hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                      vocab_size=72, layer_norm_epsilon=1e-5, multi_query=False, parallel_attn=False, bias=True, alibi=True),
    "phi": case("phi", names="phi", **WIDE, **ROPE, **UNTIED, **LN, partial_rotary_factor=0.5, hidden_act="gelu_new"),
    "stablelm": case("stablelm", **WIDE, **ROPE, **UNTIED, **LN, partial_rotary_factor=0.25, use_qkv_bias=True),
    "starcoder2": case("starcoder2", names="starcoder2", **WIDE, **ROPE, **TIED, norm_epsilon=1e-5, sliding_window=5,
                       hidden_act="gelu_pytorch_tanh", use_bias=True),
    "nemotron": case("nemotron", **SHAPE, **ROPE, **UNTIED, norm_eps=1e-5, partial_rotary_factor=0.5,
                     hidden_act="relu2"),
    "command-r": case("cohere", names="cohere", **WIDE, **ROPE, **TIED, **LN, logit_scale=0.0625),
    "command-r-plus": case("cohere", names="cohere", batch=WHOLE, **WIDE, **ROPE, **TIED, **LN, logit_scale=0.0625,
                           use_qk_norm=True),
    "command-r7b": case("cohere2", names="cohere", **dict(SHAPE, num_hidden_layers=4), **ROPE, **TIED, **LN, logit_scale=0.25,
                        sliding_window=5, sliding_window_pattern=4),
    "gemma": case("gemma", **SHAPE, **ROPE, **TIED, **RMS6, hidden_act="gelu_pytorch_tanh"),
    "gemma2": case("gemma2", names="gemma2", **SHAPE, **ROPE, **TIED, **RMS6, hidden_activation="gelu_pytorch_tanh",
                   query_pre_attn_scalar=24, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, sliding_window=5),
    "gemma3": case("gemma3_text", names="gemma2", **SHAPE, **TIED, **RMS6, hidden_activation="gelu_pytorch_tanh",
                   query_pre_attn_scalar=24, sliding_window=5, sliding_window_pattern=2, rope_theta=5000.0,
                   rope_local_base_freq=500.0, rope_scaling={"rope_type": "linear", "factor": 8.0}),
    "glm4-9b": case("glm", names="glm", **SHAPE, **ROPE, **UNTIED, rms_norm_eps=1.5625e-7, partial_rotary_factor=0.5,
                    attention_bias=True),
    "glm4-0414": case("glm4", names="glm4", **SHAPE, **ROPE, **UNTIED, **RMS5, partial_rotary_factor=0.5, attention_bias=False),
    "olmo": case("olmo", names="olmo", **WIDE, **ROPE, **UNTIED),
    "olmo2": case("olmo2", names="olmo2", **WIDE, **ROPE, **UNTIED, **RMS6),
    "olmo3": case("olmo3", names="olmo2", **dict(WIDE, num_hidden_layers=4), **ROPE, **UNTIED, **RMS6, sliding_window=5),
    "mpt": case("mpt", names="mpt", d_model=64, n_heads=4, n_layers=2, expansion_ratio=4, vocab_size=72, max_seq_len=64,
                no_bias=True, attn_config={"alibi": True}),
}


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        text = text_of(record(CASES[name]))
        with open(os.path.join(FOLDER, name + ".json"), "w", encoding="utf-8") as f:
            f.write(text)
        print(f"{name}: {len(text)} bytes")


if __name__ == "__main__":
    main()
