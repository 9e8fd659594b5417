#!/usr/bin/env python3
"""Widths of the printed 80 % intervals: what residuals of published runs ask of `memory_sigma` and `time_sigma` of each
framework file, and of the terms in `spread` of configs/calib/fabric.json, each source left out in turn.

A development tool: no build, test or program needs it. In the root of the repository:

    spplan accuracy --json >corpus.json
    for h in holdout holdout2 holdout3; do spplan accuracy --corpus configs/corpus/$h.jsonl --json >$h.json; done
    python3 tests/oracle/spread.py corpus.json holdout.json holdout2.json holdout3.json

The first file is the corpus: its core runs set the framework files. A residual is measured / predicted - 1 (memory) or
log(measured / predicted) (time). A framework's sigma is the 80 % quantile, between order statistics, of what a residual over
1.2816 leaves of the other terms in squares. A term of `spread` is the least with which 80 % of the residuals lie inside,
each source (and each run) counting alike; with a source left out, how much of it the term of the others holds."""

import glob
import json
import math
import sys
from collections import defaultdict

Z = 1.2815515655446
FRAMEWORKS = {f["name"]: f for f in map(lambda path: json.load(open(path)), glob.glob("configs/frameworks/*.json"))}
SPREAD = json.load(open("configs/calib/fabric.json"))["spread"]


def field(name, key):
    while key not in FRAMEWORKS[name]:
        name = FRAMEWORKS[name]["extends"]
    return FRAMEWORKS[name][key]


def term(row):
    """The term of `spread` that the framework's lack of runs adds, or None."""
    if row["runs"] >= SPREAD["least_runs"]:
        return None
    return row["kind"] + "_open" if not row["core"] else row["kind"] if row["kind"] == "memory" else None


def read(paths):
    rows = []
    for order, path in enumerate(paths):
        for run in json.load(open(path))["runs"]:
            for kind in ("memory", "time"):
                error, p = run[kind + "_error"], run["predicted"]
                if error is None or (kind == "memory" and run["measured"]["memory_kind"] == "kv_cache"):
                    continue
                row = {"kind": kind, "file": path, "corpus": order == 0, "core": run["core"], "group": run["group"],
                       "id": run["id"], "framework": run["framework"],
                       "x": abs(1 / (1 + error) - 1) if kind == "memory" else abs(math.log(1 + error)),
                       "runs": FRAMEWORKS[run["framework"]].get(kind + "_runs", 0),
                       "waits": SPREAD["waits"] * p["waits_share"] if kind == "time" else 0}
                added = SPREAD[term(row)] if term(row) else 0
                row["rates"] = math.sqrt(max(0, p[kind + "_sigma"] ** 2 - added**2 - field(run["framework"], kind + "_sigma") ** 2))
                rows.append(row)
    return rows


def sigma(row, replaced=None):
    terms = {k: v for k, v in SPREAD.items() if k != "source"} | (replaced or {})
    added = terms[term(row)] if term(row) else 0
    waits = row["waits"] / SPREAD["waits"] * terms["waits"]
    return math.sqrt(field(row["framework"], row["kind"] + "_sigma") ** 2 + row["rates"] ** 2 + added**2 + waits**2)


def inside(rows, replaced=None):
    return sum(r["x"] <= Z * sigma(r, replaced) for r in rows) / len(rows)


def by_group(rows):
    groups = defaultdict(list)
    for r in rows:
        groups[r["group"]].append(r)
    return groups


def least(groups, key):
    for i in range(300):
        if sum(inside(rows, {key: i / 100}) for rows in groups) / len(groups) >= 0.8:
            return i / 100
    return float("inf")


def quantile(values, q):
    values = sorted(values)
    at = q * (len(values) - 1)
    low = int(at)
    return values[low] + (at - low) * (values[min(low + 1, len(values) - 1)] - values[low])


rows = read(sys.argv[1:])
print("framework files: core runs of the corpus, the sigma they ask for, the file's")
for kind in ("memory", "time"):
    of = defaultdict(list)
    for r in rows:
        if r["corpus"] and r["core"] and r["kind"] == kind:
            of[r["framework"]].append(r)
    for name, own in sorted(of.items()):
        left = [math.sqrt(max(0, (r["x"] / Z) ** 2 - r["rates"] ** 2 - r["waits"] ** 2)) for r in own]
        print(f"  {kind:7}{name:20}{len(own):4}  {quantile(left, 0.8):.3f}  {field(name, kind + '_sigma')}")

print("terms of spread: least by source, by run; left out: lowest, highest, share inside, each source alike")
for key in ("memory", "memory_open", "time_open", "waits"):
    chosen = [r for r in rows if term(r) == key] if key != "waits" else [r for r in rows if r["waits"] > 0.1 * SPREAD["waits"]]
    groups = by_group(chosen)
    out = {g: least([v for h, v in groups.items() if h != g], key) for g in groups}
    held = sum(inside(groups[g], {key: out[g]}) for g in groups) / len(groups)
    print(f"  {key:12}{len(chosen):4} runs of {len(groups):2} sources  {least(groups.values(), key):.2f}  "
          f"{least([chosen], key):.2f}   {min(out.values()):.2f}  {max(out.values()):.2f}  {held:.2f}")

print("inside the interval: all, core, all but core")
for path in sys.argv[1:]:
    for kind in ("memory", "time"):
        of = [r for r in rows if r["file"] == path and r["kind"] == kind]
        parts = [of, [r for r in of if r["core"]], [r for r in of if not r["core"]]]
        print(f"  {path:24}{kind:7}" + "".join(f"{len(p):5}  {100 * inside(p):5.1f}" if p else "    0      -" for p in parts))
