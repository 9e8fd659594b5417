#!/usr/bin/env python3
"""How residuals of memory fall off beyond their 80 % interval: the degrees of freedom of Student's distribution that fit best.

A development tool: no build, test or program needs it. Residuals are measured / predicted - 1 in units of the run's
memory_sigma; the distribution's 80 % interval is pinned to 1.2816 of these, so that one number is free. Sources count alike.

    spplan accuracy --core --json > core.json; spplan accuracy --corpus configs/corpus/holdout.jsonl --json > holdout.json
    python3 tests/oracle/tails.py core.json holdout.json

More answers of `spplan accuracy --json` may follow. Below it, of the verdicts "fits" that these odds and a normal distribution's put so high: how many failed, and how many would have."""

import json
import math
import sys


def density(x, nu):
    norm = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
    return norm - (nu + 1) / 2 * math.log1p(x * x / nu)


def quantile(nu, p=0.9, steps=200_000, top=60.0):
    sum_, width = 0.5, top / steps
    for i in range(steps):
        sum_ += math.exp(density((i + 0.5) * width, nu)) * width
        if sum_ >= p:
            return (i + 1) * width
    raise ValueError("quantile out of range")


def normal(z):
    return 0.5 * math.erfc(-z / math.sqrt(2))


runs = [run for path in sys.argv[1:] for run in json.load(open(path))["runs"] if not run["skipped"]]
groups = {}
for run in runs:
    if run["memory_error"] is not None and run["measured"]["memory_kind"] != "kv_cache":
        residual = (1 / (1 + run["memory_error"]) - 1) / run["predicted"]["memory_sigma"]
        groups.setdefault(run["group"], []).append(residual)
print(f"{sum(map(len, groups.values()))} residuals of {len(groups)} sources; log likelihood, and by source")
for nu in (1, 1.5, 2, 3, 4, 6, 12, 1e6):
    scale = 1.2815515655446 / quantile(nu)
    each = {g: [density(z / scale, nu) - math.log(scale) for z in zs] for g, zs in groups.items()}
    print(f"{nu:9g} {sum(map(sum, each.values())):9.1f} {sum(sum(e) / len(e) for e in each.values()):9.2f}")

verdicts = []
for run in runs:
    p = run["predicted"]["fit_probability"]
    if run["measured"]["oom"] is not None and p is not None and 0 < p < 1:
        t = (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))  # quantile of two degrees of freedom
        verdicts.append((p, normal(t * 1.2815515655446 / 1.8856180831641), run["measured"]["oom"]))
print("odds from     these: verdicts, failed, expected    normal: verdicts, failed, expected")
for least in (0.9, 0.95, 0.98, 0.99, 0.999):
    line = f"{least:9}"
    for kind in (0, 1):
        high = [v for v in verdicts if v[kind] >= least]
        line += f"{len(high):21}{sum(v[2] for v in high):8}{sum(1 - v[kind] for v in high):10.2f}"
    print(line)
