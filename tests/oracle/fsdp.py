#!/usr/bin/env python3
"""Replays torchtitan's steps under FSDP2 through the model of torch's caching allocator in allocator.py.

A development tool: no build, test or program needs it, nor torch. Units are gathered into buffers of the all-gather's stream and
copied out of them, gradients of a unit are copied to fp32 and reduced into blocks of the reduce-scatter's stream (torch 2.15
distributed/fsdp/_fully_shard: foreach_all_gather, wait_for_unshard, foreach_reduce); each stream has its own segments, which are
expandable as torchtitan's launch line asks. A compiled layer takes and frees its tensors in the order of torchtitan's Llama.

    python3 tests/oracle/fsdp.py    GiB: what the log printed, reserved in the replay, allocated at most on the stream of the layers;
                                    bytes a token and layer between the first two
"""

from allocator import GIB, Allocator, Card

LLAMA = dict(h=4096, q=4096, k=1024, heads=32, i=14336, vocab=128256, layers=32)
QWEN = dict(h=4096, q=4096, k=1024, heads=32, i=12288, vocab=151936, layers=36)


class Titan:
    def __init__(self, tokens, world, h, q, k, heads, i, vocab, layers, loss, full=False, apart=True, fused=True):
        self.t, self.world, self.h, self.q, self.k, self.heads = tokens, world, h, q, k, heads
        self.i, self.vocab, self.layers, self.loss, self.full, self.apart, self.fused = i, vocab, layers, loss, full, apart, fused
        self.card = Card()
        self.main, self.gathers, self.reduces = (Allocator(True, self.card) for _ in range(3))
        self.take = self.main.take
        self.unit = ([h * (q + 2 * k)] if fused else [h * q, h * k, h * k]) + [q * h, h * i, h * i, i * h, h, h]
        self.sizes = [-(-p // world) for p in self.unit * layers + [vocab * h, h, vocab * h]]
        self.buffer = self.input = None  # held by the last gather, by the last reduction
        self.gradients, self.moments = [], []

    def give(self, *blocks):
        for block in blocks:
            block.pool.give(block)

    def elements(self, unit):
        return sum(-(-p // self.world) * self.world for p in unit)

    def copied(self, unit):
        return [self.take(2 * -(-p // self.world) * self.world) for p in unit]

    def unshard(self, unit):
        buffer = self.gathers.take(2 * self.elements(unit))
        self.let_go()
        whole, self.buffer = self.copied(unit), buffer
        return whole

    def let_go(self):
        if self.buffer:
            self.give(self.buffer)
        self.buffer = None

    def reduce(self, unit, gradients):
        if self.input:
            self.give(self.input)
        self.input = self.take(4 * self.elements(unit))
        self.give(*gradients)
        self.gradients.append(self.reduces.take(4 * self.elements(unit) // self.world))

    def forward(self, x, again=False):
        take, t, h, q, k, i = self.take, self.t, self.h, self.q, self.k, self.i
        norm, kept = take(2 * t * h), {"statistics 1": take(4 * t)}
        if self.fused:
            kept["qkv"] = take(2 * t * (q + 2 * k))
            parts = [take(2 * t * q), take(2 * t * k), take(2 * t * k)]
        else:
            kept["q"], key, kept["v"] = take(2 * t * q), take(2 * t * k), take(2 * t * k)
            parts = [take(2 * t * q), take(2 * t * k), key]
        self.give(norm)
        kept["out"], kept["sums"] = take(2 * t * q), take(4 * t * self.heads)
        self.give(*parts)
        projected, norm = take(2 * t * h), take(2 * t * h)
        kept["statistics 2"], kept["gate"], up = take(4 * t), take(2 * t * i), take(2 * t * i)
        self.give(norm)
        out = take(2 * t * h)
        self.give(up, projected)
        if self.full and not again:
            self.give(*kept.values())
            kept = {}
        return out, {"x": x, **kept}

    def backward(self, kept, dy):
        take, t, h, q, k, i = self.take, self.t, self.h, self.q, self.k, self.i
        if self.full:
            out, kept = self.forward(kept["x"], True)
            self.give(out)
        again = [take(2 * t * n) for n in (h, q, k, k, h, h)]
        up, product = take(2 * t * i), take(2 * t * i)
        down = take(2 * i * h)
        self.give(product)
        dproduct = take(2 * t * i)
        dgate, dup = take(2 * t * i), take(2 * t * i)
        self.give(dproduct, up, kept.pop("gate"))
        gradients = [down, take(2 * i * h), take(2 * i * h)]
        one = take(2 * t * h)
        self.give(dgate)
        two = take(2 * t * h)
        self.give(dup)
        stream = take(2 * t * h)
        self.give(one, two, dy)
        gradients.append(take(2 * q * h))
        dout = take(2 * t * q)
        split = [take(2 * t * n) for n in (q, k, k)]
        self.give(take(4 * t * q), dout, *again)
        joined = take(2 * t * (q + 2 * k))
        self.give(*split)
        gradients.append(take(2 * h * (q + 2 * k)))
        dnorm = take(2 * t * h)
        self.give(joined)
        dx = take(2 * t * h)
        self.give(dnorm, stream, *kept.values())
        return dx, gradients

    def chunks(self, head):
        """The gradient of the hidden states, the head's being reduced: torchtitan 0.3.0 ChunkedLossWrapper, loss not compiled."""
        take, c, v = self.take, self.t // 8, self.vocab
        rows, total = [take(2 * c * self.h) for _ in range(8)], take(4 * self.t * self.h)
        weights, summed = self.unshard(head), None
        last = None
        for _ in range(8):
            logits = take(2 * c * v)
            if last:
                self.give(last)
            last, gradient = logits, self.cross_entropy(c)
            made = take(2 * v * self.h)
            summed = summed or take(4 * v * self.h)
            self.give(made, take(2 * c * self.h), gradient)
        self.give(last, *weights)
        self.let_go()
        self.reduce(head, [summed])
        dy = take(2 * self.t * self.h)
        self.give(total, *rows)
        return dy

    def cross_entropy(self, rows, *logits):
        """Operator by operator; the gradient of the logits. Logits that nobody else refers to are gone behind its forward."""
        wide = self.take(4 * rows * self.vocab)
        softmax = self.take(4 * rows * self.vocab)
        self.give(wide, *logits)
        back = [self.take(4 * rows * self.vocab), self.take(4 * rows * self.vocab)]
        self.give(back[0], softmax)
        narrow = self.take(2 * rows * self.vocab)
        self.give(back[1])
        return narrow

    def whole(self):
        """The gradients of the hidden states and of the head."""
        take, size = self.take, 2 * self.t * self.vocab
        logits = take(size)
        if self.loss == "compiled":
            gradient = take(size)
            self.give(logits)
        else:
            gradient = self.cross_entropy(self.t, logits)
        made = [take(2 * self.t * self.h), take(2 * self.vocab * self.h)]
        self.give(gradient)
        return made

    def step(self):
        take, size, table, head = self.take, 2 * self.t * self.h, [self.vocab * self.h], [self.vocab * self.h, self.h]
        ids = [take(8 * self.t), take(8 * self.t)]
        outer = self.unshard(table if self.apart else table + head)
        x, kept, of_head = take(size), [], []
        if self.apart:
            self.give(*outer)
        for _ in range(self.layers):
            weights = self.unshard(self.unit)
            x, layer = self.forward(x)
            kept.append(layer)
            self.give(*weights)
        norm = [take(size), take(4 * self.t)]
        if self.loss == "chunks":
            dy = self.chunks(head)
        else:
            dy, *of_head = self.whole()
        dx = take(size)
        self.give(dy, x, *norm)
        self.let_go()
        dy, ahead = dx, self.gathers.take(2 * self.elements(self.unit))
        for layer in kept[::-1]:
            weights = self.copied(self.unit)
            self.give(ahead)
            ahead = self.gathers.take(2 * self.elements(self.unit if layer is not kept[0] else table))
            dy, gradients = self.backward(layer, dy)
            self.give(*weights)
            self.reduce(self.unit, gradients)
        self.give(ahead)
        self.reduce(table if self.apart else table + head, [take(2 * table[0]), *of_head])
        self.give(dy, self.input, *ids)
        self.input = None
        if not self.apart:
            self.give(*outer)
        for size in self.sizes if not self.moments else ():
            self.moments += [take(4 * size), take(4 * size)]
        self.give(*self.gradients)
        self.gradients = []

    def run(self):
        for size in self.sizes:
            self.take(4 * size)
        for _ in range(3):
            self.step()


OLD = dict(apart=False, fused=False)
ROWS = (
    ("titan-002", 77.0, dict(tokens=16384, world=8, loss="eager", **OLD, **LLAMA)),
    ("titan-005", 62.0, dict(tokens=16384, world=128, loss="eager", **OLD, **LLAMA)),
    ("titan-007, full recompute", 83.9, dict(tokens=32768, world=8, loss="eager", full=True, **OLD, **LLAMA)),
    ("titan-031", 48.0, dict(tokens=16384, world=32, loss="compiled", **OLD, **LLAMA)),
    ("titan-032", 47.0, dict(tokens=16384, world=64, loss="compiled", **OLD, **LLAMA)),
    ("titan-038, chunks", 179.9, dict(tokens=65536, world=4, loss="chunks", **LLAMA)),
    ("titan-040, chunks", 112.9, dict(tokens=32768, world=4, loss="chunks", **QWEN)),
    ("titan-040, whole logits", 112.9, dict(tokens=32768, world=4, loss="compiled", **QWEN)),
)


def main():
    print(f"{'':28}  printed reserved allocated  bytes")
    for name, printed, job in ROWS:
        titan = Titan(**job)
        titan.run()
        reserved = titan.card.most / GIB
        missing = (printed - reserved) * GIB / job["tokens"] / job["layers"]
        print(f"{name:28}{printed:9.1f}{reserved:9.1f}{titan.main.peak / GIB:10.1f}{missing:7.0f}")


if __name__ == "__main__":
    main()
