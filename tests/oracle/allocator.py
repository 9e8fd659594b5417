#!/usr/bin/env python3
"""Replays the allocations of whole training steps through a model of torch's caching allocator.

A development tool: no build, test or program needs it, nor torch. The first stage of Llama-3-70B under Megatron's interleaved
schedule (TP 4, PP 4, VPP 5, DP 2, FP8 current scaling, 4,096 tokens) makes and frees its tensors in the order of megatron-core
0.16.1 (interleaved schedule, distributed optimizer, buckets of param_and_grad_buffer.py: one for the first chunk's every
128 Mi elements, one for each other chunk) and transformer-engine 2.9.0 (module/linear.py, layernorm_linear.py with user buffers).

With "graphs" its MLPs are captured after three steps (megatron-core 0.19.2 transformer/cuda_graphs.py TECudaGraphHelper;
transformer-engine 2.9.0 pytorch/graph.py, which reuses buffers): copies of the inputs stay, the rest lies in a private pool, and nothing
else gets those blocks.

    python3 tests/oracle/allocator.py      GiB: allocated in the first step, at most outside graphs, in their pool; reserved; needed

"reserved": torch's default, segments of their own size (c10/cuda/CUDACachingAllocator: best fit, requests of 1 to 10 MiB from
segments of 20 MiB, larger ones rounded to 2 MiB, blocks split when more than 1 MiB is left). "needed": expandable segments; pages of
20 MiB that a block in use touches, the others can be unmapped, and what the graphs' pool has."""

import bisect

MIB, GIB, PAGE = 1 << 20, 1 << 30, 20 << 20


class Block:
    def __init__(self, at, size, before=None, after=None):
        self.at, self.size, self.before, self.after, self.free = at, size, before, after, True

    def __lt__(self, other):
        return self.at < other.at


class Card:
    """Segments of all pools."""

    def __init__(self):
        self.reserved = self.most = 0

    def grow(self, size):
        self.reserved += size
        self.most = max(self.most, self.reserved)


class Allocator:
    """One stream. Plain segments, or with `expandable` one address range a pool that grows at its end."""

    def __init__(self, expandable, card):
        self.card = card
        self.expandable, self.holes, self.ends = expandable, {True: [], False: []}, {}
        self.used = self.peak = self.reserved = self.needed = self.calls = 0
        self.next = 1 << 44

    def grow(self, size, small):
        if not self.expandable:
            rounded = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            self.next += 1 << 36
            self.reserved += rounded
            self.card.grow(rounded)
            return Block(self.next, rounded)
        end, page = self.ends.get(small), 2 * MIB if small else PAGE
        tail = end if end is not None and end.free else None
        more = -(-(size - (tail.size if tail else 0)) // page) * page
        self.reserved += more
        self.card.grow(more)
        if tail:
            self.holes[small].remove((tail.size, tail.at, tail))
            tail.size += more
            return tail
        self.next += 0 if end else 1 << 50
        made = Block(end.at + end.size if end else self.next, more, end)
        if end:
            end.after = made
        self.ends[small] = made
        return made

    def take(self, size):
        size = max(512, -(-size // 512) * 512)
        small = size <= MIB
        holes = self.holes[small]
        i = bisect.bisect_left(holes, (size, 0))
        block = holes.pop(i)[2] if i < len(holes) else self.grow(size, small)
        left = block.size - size
        if left >= 512 if small or self.expandable else left > MIB:
            rest = Block(block.at + size, left, block, block.after)
            if block.after:
                block.after.before = rest
            elif self.expandable:
                self.ends[small] = rest
            block.after, block.size = rest, size
            bisect.insort(holes, (rest.size, rest.at, rest))
        block.free, block.small, block.pool = False, small, self
        self.used += block.size
        self.peak = max(self.peak, self.used)
        self.calls += 1
        if self.expandable and self.used > 0.985 * self.peak and self.calls % 7 == 0:
            self.needed = max(self.needed, self.touched())
        return block

    def give(self, block):
        holes = self.holes[block.small]
        self.used -= block.size
        block.free = True
        for neighbour in (block.before, block.after):
            if neighbour is None or not neighbour.free:
                continue
            holes.remove((neighbour.size, neighbour.at, neighbour))
            first, second = sorted((block, neighbour))
            first.size, first.after, first.small = first.size + second.size, second.after, block.small
            if second.after:
                second.after.before = first
            if self.ends.get(block.small) is second:
                self.ends[block.small] = first
            block = first
        bisect.insort(holes, (block.size, block.at, block))

    def empty(self):
        """torch.cuda.empty_cache: plain segments that are free from end to end."""
        for holes in () if self.expandable else self.holes.values():
            whole = [hole for hole in holes if not hole[2].before and not hole[2].after]
            self.reserved -= sum(hole[0] for hole in whole)
            self.card.reserved -= sum(hole[0] for hole in whole)
            holes[:] = [hole for hole in holes if hole not in whole]

    def touched(self):
        total = 0
        for small, block in self.ends.items():
            page, last = 2 * MIB if small else PAGE, -1
            while block.before:
                block = block.before
            start = block.at
            while block:
                if not block.free:
                    first, end = (block.at - start) // page, (block.at - start + block.size - 1) // page
                    first = max(first, last + 1)
                    total += max(0, end - first + 1) * page
                    last = max(last, end)
                block = block.after
        return total


class Stage:
    hidden, ffn, q, kv, heads, vocab, layers, tokens, vpp = 8192, 28672, 8192, 1024, 64, 128256, 80, 4096, 5

    def __init__(self, expandable=False, tp=4, pp=4, dp=2, mlp_again=False, loads=True, graphs=False):
        self.tp, self.pp, self.dp, self.mlp_again, self.loads, self.graphs = tp, pp, dp, mlp_again, loads, graphs
        self.card, self.captured, self.eager = Card(), False, (0, 0)
        self.allocator, self.pool = Allocator(expandable, self.card), Allocator(expandable, self.card)
        self.take = self.allocator.take
        self.chunk, self.micro_batches = self.layers // (pp * self.vpp), 32 // dp
        self.weights = {"qkv": (self.q + 2 * self.kv) // tp * self.hidden, "proj": self.hidden * self.q // tp,
                        "fc1": 2 * self.ffn // tp * self.hidden, "fc2": self.hidden * self.ffn // tp}
        self.unused = {}

    def give(self, *blocks):
        for block in blocks:
            block.pool.give(block)

    def shards(self, names, limit):
        """The first rank's part of each bucket: (elements, of FP8 weights?), the weights last to first."""
        made, bucket = [], []
        for i, (name, size) in enumerate(names):
            bucket.append((name, size))
            if (limit is None or sum(n for _, n in bucket) < limit) and i + 1 < len(names):
                continue
            room = -(-sum(n for _, n in bucket) // self.dp)
            for name, size in bucket:
                if room > 0:
                    made.append((min(size, room), name != "embedding", size))
                room -= size
            bucket = []
        return made

    def build(self):
        take, embedding = self.take, self.vocab // self.tp * self.hidden
        rows, self.parts = [], []
        for chunk in range(self.vpp):
            if chunk == 0:
                rows.append((0, take(2 * embedding)))
            for size in list(self.weights.values()) * self.chunk:  # quantised when made, row-wise and transposed
                wide = take(2 * size)
                rows.append((chunk, take(size)))
                take(size)
                self.give(wide)
        for chunk in range(self.vpp):  # buffers of a chunk: 8-bit weights, their gradients; 16-bit ones
            whole = self.chunk * sum(self.weights.values())
            others = 2 * self.chunk * self.hidden + (embedding if chunk == 0 else 0)
            for size in (whole, 2 * whole, 2 * others, 2 * others):
                take(size)
            self.give(*(block for c, block in rows if c == chunk))
            self.parts += self.shards(list(self.weights.items())[::-1] * self.chunk, None if chunk else 128 * MIB)
            if chunk == 0:
                self.parts += self.shards([("embedding", embedding)], None)
        for size, _, _ in self.parts:
            cast = take(2 * size)
            take(4 * size)
            self.give(cast)
        if self.loads:  # dist_checkpointing/utils.py force_all_tensors_to_non_fp8, then the masters anew
            self.give(*[take(2 * size) for size in list(self.weights.values()) * self.chunk * self.vpp])
            for _, fp8, size in self.parts:
                if fp8:
                    self.give(take(2 * size))
        for size in (96 * MIB + 1024, 32 * MIB):
            take(size)

    def forward(self, x):
        kept = self.attention(x)
        if not self.captured:
            return self.rest(kept), kept
        self.give(kept.pop("y"))  # copied into the graph's input
        return None, kept

    def attention(self, x):
        take, t, own, h, f = self.take, self.tokens, self.tokens // self.tp, self.hidden, self.ffn // self.tp
        q, kv, stream = self.q // self.tp, self.kv // self.tp, 2 * own * h
        kept = {"x": x, "scale 1": take(4 * own)}
        wide, kept["norm 1"] = take(stream), take(own * h)
        self.give(wide)
        joined, split = take(2 * t * (q + 2 * kv)), take(2 * t * q)
        kept["q"], kept["k"] = take(2 * t * q), take(2 * t * kv)
        self.give(split)
        kept["v"] = take(2 * t * kv)
        self.give(joined)
        kept["out"], kept["sums"] = take(2 * t * q), take(4 * t * self.heads // self.tp)
        row, kept["out 8"], projected = take(t * q), take(t * q), take(stream)
        self.give(row)
        kept["y"] = take(stream)
        self.give(projected)
        return kept

    def rest(self, kept):
        take, own = self.take, self.tokens // self.tp
        stream = 2 * own * self.hidden
        kept["scale 2"] = take(4 * own)
        wide, kept["norm 2"] = take(stream), take(own * self.hidden)
        self.give(wide)
        self.mlp(kept)
        if self.mlp_again:
            self.give(kept.pop("gate and up"), kept.pop("product"))
        down = take(stream)
        out = take(stream)
        self.give(down)
        return out

    def mlp(self, kept):
        t, f = self.tokens, self.ffn // self.tp
        kept["gate and up"] = self.take(4 * t * f)
        product, row = self.take(2 * t * f), self.take(t * f)
        kept["product"] = self.take(t * f)
        self.give(row, product)

    def gathered(self):
        return [self.take(self.tokens // self.tp * self.hidden), self.take(self.tokens * self.hidden)]

    def placeholder(self, name):
        if name not in self.unused:
            self.unused[name] = self.take(2 * self.weights[name])

    def column(self, gradient, elements, norm, name):
        """Backward of a column-parallel product: 8-bit gradient twice, input transposed, the norm's gradient."""
        own = 2 * self.tokens // self.tp * self.hidden
        eight = [self.take(elements), self.take(elements), self.take(self.tokens * self.hidden)]
        back = self.take(own)
        self.placeholder(name)
        self.give(*eight, gradient, norm)
        out = self.take(own)
        self.give(back)
        return out

    def backward(self, dy, kept):
        if self.captured:  # copied into the gradient that the graph reads
            self.give(dy)
            return self.attention_backward(None, kept)
        dy = self.rest_backward(dy, kept)
        self.give(kept["y"])
        return self.attention_backward(dy, kept)

    def rest_backward(self, dy, kept):
        take, t, f = self.take, self.tokens, self.ffn // self.tp
        if self.mlp_again:
            self.mlp(kept)
        eight = self.gathered()
        dproduct = take(2 * t * f)
        self.placeholder("fc2")
        self.give(*eight, kept["product"])
        dgate = take(4 * t * f)
        self.give(dproduct, kept["gate and up"])
        dx = self.column(dgate, 2 * t * f, kept["norm 2"], "fc1")
        self.give(kept["scale 2"])
        stream = take(2 * t // self.tp * self.hidden)
        self.give(dx, dy)
        return stream

    def attention_backward(self, stream, kept):
        take, t, q, kv = self.take, self.tokens, self.q // self.tp, self.kv // self.tp
        eight = self.gathered()
        dout = take(2 * t * q)
        self.placeholder("proj")
        self.give(*eight, kept["out 8"])
        dq, dk, dv = take(2 * t * q), take(2 * t * kv), take(2 * t * kv)
        self.give(take(4 * t * q + 8 * t * self.heads // self.tp), dout)
        self.give(*(kept[name] for name in ("out", "sums", "q", "k", "v")))
        turned = [take(2 * t * q), take(2 * t * kv)]
        self.give(dq, dk)
        joined = take(2 * t * (q + 2 * kv))
        self.give(*turned, dv)
        dx = self.column(joined, t * (q + 2 * kv), kept["norm 1"], "qkv")
        self.give(kept["scale 1"])
        out = take(2 * t // self.tp * self.hidden)
        self.give(dx, *(block for block in (stream, kept["x"]) if block))
        return out

    def capture(self):
        own, live, wire, free, order = 2 * self.tokens // self.tp * self.hidden, {}, [], 0, list(self.order())
        self.allocator.empty()
        for forward, _ in order:  # an input is used again once its backward is captured
            if forward and free == 0:
                for _ in range(self.chunk):
                    self.take(own)
            free += -min(free, 1) if forward else 1
        self.take(own)  # the gradient that all graphs read
        self.take = self.pool.take
        for forward, place in order:
            if forward:
                live[place] = [{} for _ in range(self.chunk)]
                for layer in live[place]:
                    layer["out"] = self.rest(layer)
                continue
            for layer in live.pop(place)[::-1]:
                wire.append(self.rest_backward(self.take(1), layer))
                self.give(layer["out"])
                if len(wire) > 2:
                    self.give(wire.pop(0))
        self.give(*wire)
        self.take, self.eager, self.captured = self.allocator.take, self.figures(), True
        self.allocator.empty()
        self.allocator.peak = self.allocator.needed = 0

    def figures(self):
        """Allocated at most outside graphs, and needed."""
        pool = self.pool.reserved if self.captured else 0
        return max(self.eager[0], self.allocator.peak), max(self.eager[1], self.allocator.needed + pool)

    def order(self):
        turns = [(low + k, c) for low in range(0, self.micro_batches, self.pp) for c in range(self.vpp)
                 for k in range(self.pp)]
        ahead = min(len(turns), 2 * (self.pp - 1) + (self.vpp - 1) * self.pp)
        for i in range(len(turns) + ahead):
            if i < len(turns):
                yield True, turns[i]
            if i >= ahead:
                yield False, (turns[i - ahead][0], self.vpp - 1 - turns[i - ahead][1])

    def passes(self):
        live, wire, own = {}, [], 2 * self.tokens // self.tp * self.hidden
        for forward, (micro, chunk) in self.order():
            if forward:
                whole = self.take(2 * self.tokens * self.hidden) if chunk == 0 else None
                x = self.take(own)
                if whole:
                    self.give(whole)
                kept = []
                for _ in range(self.chunk):
                    x, layer = self.forward(x)
                    kept.append(layer)
                live[micro, chunk] = kept
            else:
                x = self.take(own)
                for layer in live.pop((micro, chunk))[::-1]:
                    x = self.backward(x, layer)
            wire.extend([x] if x else [])
            if len(wire) > 1:
                self.give(wire.pop(0))
        self.give(*wire)

    def run(self):
        first, gradients = 0, []
        self.build()
        for step in range(6 if self.graphs else 3):
            if step == 3:
                self.capture()
            self.give(*gradients)
            self.passes()
            gradients = [self.take(4 * size) for size, _, _ in self.parts]
            if step == 0:
                for size, _, _ in self.parts:
                    self.take(4 * size)
                    self.take(4 * size)
            self.give(*[self.take(2 * size) for size, fp8, _ in self.parts if fp8])
            first = first or self.allocator.peak
        return first


CASES = {"the job": {}, "not loaded from a checkpoint": {"loads": False}, "MLP again": {"mlp_again": True},
         "PP 8": {"pp": 8, "dp": 1}, "TP 8": {"tp": 8, "dp": 1}}


def main():
    print(f"{'':36}    first  at most   graphs reserved   needed")
    for name, changed in CASES.items():
        for graphs in (False, True):
            plain, expandable = Stage(graphs=graphs, **changed), Stage(True, graphs=graphs, **changed)
            first = plain.run()
            expandable.run()
            figures = (first, plain.figures()[0], plain.pool.reserved, plain.card.most, expandable.figures()[1])
            print(f"{name + ', graphs' * graphs:36}" + "".join(f"{figure / GIB:9.2f}" for figure in figures))


if __name__ == "__main__":
    main()
