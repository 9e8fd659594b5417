#!/usr/bin/env python3
"""Measures what sequence parallelism costs the host: one step of a ring and one all-to-all, without kernels and network.

A development tool like host.py. Runs the code of ring-flash-attn (zigzag) and yunchang (SeqAllToAll4D) on tensors of no
size over torch's fake process group, flash attention replaced by an allocation of its outputs; the difference between
rings of 2 and 8 is the host's time of six steps. NCCL's own host time (an event, a wait, a kernel) and the launch of the
attention kernel are not in it. What transfers to a GPU machine is the ratio to the plain layer of host.py, which is
measured beside it. Writes host/exchanges.json.

    pip download --no-deps ring-flash-attn==0.1.2 yunchang==0.3.5, unpack both
    python3 tests/oracle/host_exchanges.py FOLDER_OF_ring_flash_attn FOLDER_OF_yunchang
"""

import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
import types
import warnings

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 300


def package_at(name, folder):
    """The package without what its __init__ imports (transformers adapters, CUDA kernels)."""
    module = types.ModuleType(name)
    module.__path__ = [folder]
    sys.modules[name] = module


def without_flash_attention(torch):
    def forward(q, k, v, *_, **__):
        return torch.empty_like(q), q, k, v, q, torch.empty(q.shape[0], q.shape[2], q.shape[1]), None, None

    interface = types.ModuleType("flash_attn.flash_attn_interface")
    interface._flash_attn_forward = forward
    interface._flash_attn_backward = lambda *_, **__: None
    sys.modules["flash_attn"] = types.ModuleType("flash_attn")
    sys.modules["flash_attn.flash_attn_interface"] = interface


def low_us(times):
    """A low quantile: other programs on the machine only add."""
    return 1e6 * statistics.quantiles(times[20:], n=10)[0]


def passes_us(call, torch):
    x = torch.randn(1, 16, 8, 16, dtype=torch.bfloat16, requires_grad=True)
    forward, backward = [], []
    for _ in range(STEPS):
        start = time.thread_time()
        out = call(x)
        middle = time.thread_time()
        out.backward(out.detach())
        forward.append(middle - start)
        backward.append(time.thread_time() - middle)
    return low_us(forward), low_us(backward)


def measure(what, ranks, ring_folder, ulysses_folder, answer):
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.set_num_threads(1)
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=ranks)
    without_flash_attention(torch)
    package_at("ring_flash_attn", os.path.join(ring_folder, "ring_flash_attn"))
    package_at("yunchang", os.path.join(ulysses_folder, "yunchang"))
    package_at("yunchang.comm", os.path.join(ulysses_folder, "yunchang", "comm"))
    if what == "ring":
        from ring_flash_attn.zigzag_ring_flash_attn import zigzag_ring_flash_attn_func
        answer.put(passes_us(lambda x: zigzag_ring_flash_attn_func(x, x, x, causal=True), torch))
    else:
        from yunchang.comm.all_to_all import SeqAllToAll4D
        answer.put(passes_us(lambda x: SeqAllToAll4D.apply(None, x, 2, 1), torch))


def plain(answer):
    sys.path.insert(0, HERE)
    import host
    host.torch.distributed.init_process_group("gloo")
    answer.put([1e3 * ms for ms in host.layer_ms(lambda layers: host.model_of(layers))])


def in_process(target, *arguments):
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=target, args=(*arguments, answer))
    process.start()
    result = answer.get()
    process.join()
    return result


def main():
    folders = sys.argv[1:3]
    two, eight = (in_process(measure, "ring", ranks, *folders) for ranks in (2, 8))
    rows = {"plain layer": in_process(plain), "ring step": [(b - a) / 6 for a, b in zip(two, eight)],
            "all-to-all": in_process(measure, "ulysses", 4, *folders)}
    for name, (forward, backward) in rows.items():
        print(f"{name:12} forward {forward:.0f} us, backward {backward:.0f} us")
    import torch
    with open(os.path.join(HERE, "host", "exchanges.json"), "w", encoding="utf-8") as out:
        json.dump({"_doc": "host_exchanges.py: CPU time on one thread, us",
                   "versions": {"torch": torch.__version__, "ring-flash-attn": "0.1.2", "yunchang": "0.3.5"},
                   "python": platform.python_version(),
                   "rows": {name: {"forward_us": round(f), "backward_us": round(b)} for name, (f, b) in rows.items()}},
                  out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
