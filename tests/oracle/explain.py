"""Known reasons why a count differs from the model: what a CPU keeps otherwise than a GPU, and what the model leaves out
because it is a few bytes a token. `bytes` is what the count has more (or less) than the model says; the test subtracts
it, so a reason that does not hold shows."""

from math import prod

SIZES = {"bool": 1, "bfloat16": 2, "float32": 4, "int32": 4, "int64": 8}


def elements(row):
    return row["bytes"] // SIZES[row["dtype"]]


def dropout_mask(row):
    if ".lora_dropout." in row["tensor"] and row["made_by"] == "-":
        return row["bytes"] - elements(row), (
            "a CPU keeps the dropout mask in the type of its input; CUDA's native_dropout in one byte")


def layer_norm_statistics(row):
    norm = "ln_" in row["tensor"] or "layernorm" in row["tensor"]
    if norm and row["made_by"] == "-" and row["dtype"] == "bfloat16" and row["shape"][-1] == 1:
        return -row["bytes"], "a CPU's layer_norm keeps mean and rstd in 16 bit; CUDA's in fp32"


def norm_weight(row):
    if row["made_by"] == "AddBackward0" and row["dtype"] == "float32" and len(row["shape"]) == 1:
        return row["bytes"], "1 + weight of the norm in fp32: one row, whatever the tokens; left out"


def expert_offsets(row):
    if row["dtype"] == "int32" and len(row["shape"]) == 1:
        return row["bytes"], "offsets of the experts' rows: one number an expert; left out"


def falcon_scalars(row):
    if row["tensor"] == "self_attention" and row["dtype"] == "int64":
        return row["bytes"], "indices of one element that select K and V; left out"


def broadcast_view(row):
    whole = prod(row["shape"]) * SIZES[row["dtype"]] * row["count"]
    if row["tensor"] == "self_attention" and row["bytes"] < whole:
        return row["bytes"] - whole, "one sequence: the one KV head stays a broadcast view; several sequences copy it"


def sink_column(row):
    if row["made_by"] == "SoftmaxBackward0" and len(row["shape"]) == 4 and row["shape"][3] == row["shape"][2] + 1:
        return row["bytes"] // row["shape"][3], "one column more for the sink: a byte pair a query and head; left out"


def row_maximum(row):
    if row["tensor"] == "self_attn" and row["dtype"] == "int64" and row["shape"][-1] == 1:
        return row["bytes"], "index of each query's largest score: 8 bytes a query and head, eager only; left out"


def weight_sum(row):
    sums = row["made_by"] in ("SumBackward1", "AddBackward0")
    if row["tensor"] == "mlp.gate" and sums and row["shape"][-1] == 1:
        return row["bytes"], "sum of the chosen experts' weights: 4 bytes a token; left out"


def routed_weight(row):
    if row["tensor"] == "mlp.experts" and row["dtype"] == "bfloat16" and row["shape"][1:] == [1]:
        return -row["bytes"], "routing weight in 16 bit; the model counts fp32 for every family"


def chosen_softmax(row):
    if row["tensor"] == "mlp.router" and row["made_by"] == "SoftmaxBackward0":
        return row["bytes"], "softmax over the chosen experts only: 2 bytes a routed row; left out"


def shared_gate(row):
    if row["tensor"] == "mlp" and row["made_by"] == "SigmoidBackward0":
        return row["bytes"], "gate of the shared expert: one 16-bit number a token; left out"


def expert_groups(row):
    if row["tensor"] == "mlp.gate" and (row["dtype"] == "bool" or row["dtype"] == "int64" and (
            len(row["shape"]) == 3 or row["shape"][-1] == 1)):
        return row["bytes"], "choice of expert groups: a mask of the experts and a few indices a token; left out"


RULES = [dropout_mask, layer_norm_statistics, norm_weight, expert_offsets, falcon_scalars, broadcast_view, sink_column,
         row_maximum, weight_sum, routed_weight, chosen_softmax, shared_gate, expert_groups]


def entry(tensor, size, why):
    return {"tensor": tensor, "bytes": size, "why": why}


def by_row(record):
    for row in record["tensors"]:
        for rule in RULES:
            found = rule(row)
            if found:
                yield entry(f"{row['tensor']} {row['dtype']} {row['shape']}", *found)


def routing(record, experts, chosen):
    """What the model counts of a router and this family has not, or has more of."""
    rows = [row for row in record["tensors"] if row["tensor"].startswith("mlp")]
    tokens = record["tokens"] * record["sequences"]
    routed = tokens * chosen
    if not any(row["made_by"] == "CloneBackward0" for row in rows):
        yield entry("experts: routing weights", -4 * routed,
                    "not divided by their sum: one value a routed row less than the model counts")
    if not any(row["dtype"] == "float32" and row["shape"] == [tokens, experts] for row in rows):
        yield entry("router probabilities", -4 * tokens * experts, "the softmax is over the chosen experts only")
    indices = sum(row["count"] for row in rows if row["dtype"] == "int64" and prod(row["shape"]) == routed
                  and len(row["shape"]) < 3)
    if indices > 4:
        yield entry("mlp.experts int64", 8 * routed * (indices - 4),
                    "the bias of each routed row is gathered by its index: 8 bytes a routed row; left out")


def differences(record, experts, chosen):
    if record["checkpointing"] != "none":
        return []
    return list(by_row(record)) + (list(routing(record, experts, chosen)) if experts else [])
