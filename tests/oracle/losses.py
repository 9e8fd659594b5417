#!/usr/bin/env python3
"""Records what the language-model loss holds at its largest moments, for tests/model/test_oracle.c: results/loss.json.

A development tool like saved_tensors.py. The head is a torch linear; the loss of transformers is its own function, the
one of ms-swift under sequence parallelism is torch's CrossEntropyLoss on the 16-bit logits, as in its
swift/trainers/utils.py per_token_loss_func_sp."""

import gc
import json
import os

import torch
from transformers.loss.loss_utils import ForCausalLMLoss

from count import Alive, short
from saved_tensors import HERE, versions

HIDDEN = 48


def hf_full(logits, labels):
    return ForCausalLMLoss(logits, labels, logits.shape[-1])


def sp_16bit(logits, labels):
    return torch.nn.CrossEntropyLoss(reduction="none")(logits.view(-1, logits.shape[-1]), labels.view(-1)).mean()


LOSSES = {"hf-full": hf_full, "sp-16bit": sp_16bit}


def rows(alive):
    lines = [{"tensor": made_by, "dtype": short(dtype), "shape": list(shape), "bytes": size}
             for size, made_by, dtype, shape in alive if size]
    return sorted(lines, key=lambda line: -line["bytes"])


def measure(path, tokens, vocab, referenced, trained):
    torch.manual_seed(0)
    head = torch.nn.Linear(HIDDEN, vocab, bias=False, dtype=torch.bfloat16).requires_grad_(trained)
    hidden = torch.randn(1, tokens, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(0, vocab, (1, tokens))
    gc.collect()
    with Alive() as alive:
        alive.skip([head.weight, hidden, labels])
        logits = head(hidden)
        loss = LOSSES[path](logits, labels)
        if not referenced:
            del logits
        forward, kept = alive.at_peak(), alive.at_now()
        alive.forget_peak()
        loss.backward()
        backward = alive.at_peak()
    return {"forward": forward, "kept": kept, "backward": backward}


def explained(lines, vocab):
    """Everything that has no vocabulary in its shape: the model counts labels elsewhere and no scalars."""
    return [{"tensor": f"{row['tensor']} {row['dtype']} {row['shape']}", "bytes": row["bytes"],
             "why": "labels and scalars of the loss: no logits, a few bytes a token"}
            for row in lines if vocab not in row["shape"]]


def main():
    torch.set_num_threads(1)
    records = []
    for path in LOSSES:
        for tokens, vocab in ((40, 5000), (96, 3072)):
            for referenced in (False, True):
                for trained in (True, False):
                    moments = measure(path, tokens, vocab, referenced, trained)
                    lines = {moment: rows(alive) for moment, alive in moments.items()}
                    record = {"path": path, "tokens": tokens, "vocab": vocab, "hidden": HIDDEN,
                              "logits_referenced": referenced, "head_trained": trained}
                    record |= {f"{moment}_bytes": sum(r["bytes"] for r in list_) for moment, list_ in lines.items()}
                    records.append(record | lines | {"explained": explained(lines["backward"], vocab)})
    text = ",\n  ".join(json.dumps(record).replace('"forward":', '\n   "forward":').replace('"kept":', '\n   "kept":')
                        .replace('"backward":', '\n   "backward":').replace('"explained":', '\n   "explained":')
                        for record in records)
    head = json.dumps({"versions": versions()}, indent=1)[:-2]
    os.makedirs(os.path.join(HERE, "losses"), exist_ok=True)
    with open(os.path.join(HERE, "losses", "loss.json"), "w", encoding="utf-8") as file:
        file.write(f'{head},\n "cases": [\n  {text}]}}\n')
    for record in records:
        nv = record["tokens"] * record["vocab"]
        print(record["path"], record["tokens"], record["vocab"], record["logits_referenced"], record["head_trained"],
              *(f"{m} {record[m + '_bytes'] / nv:.3f}" for m in ("forward", "kept", "backward")))


if __name__ == "__main__":
    main()
