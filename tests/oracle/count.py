"""Count what autograd keeps of the layers of a Hugging Face model, and what is alive while a step runs."""

import contextlib
import re
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

LAYER = re.compile(r"(?:^|\.)(?:layers|h)\.(\d+)(?:\.(.*))?$")


def short(dtype):
    return str(dtype).replace("torch.", "")


class Places:
    """The name of the module that is running, through forward hooks on every module."""

    def __init__(self, model):
        self.stack = []
        self.handles = []
        for name, module in model.named_modules():
            self.handles.append(module.register_forward_pre_hook(self._enter(name)))
            self.handles.append(module.register_forward_hook(self._leave, always_call=True))

    def _enter(self, name):
        return lambda module, args: self.stack.append(name)

    def _leave(self, module, args, output):
        self.stack.pop()

    def close(self):
        for handle in self.handles:
            handle.remove()

    def now(self):
        """(layer, or None outside the layers; module inside it)."""
        name = self.stack[-1] if self.stack else ""
        found = LAYER.search(name)
        if found:
            return int(found.group(1)), found.group(2) or "layer"
        return None, name or "model"


def storage_of(tensor):
    """Key and bytes of the memory behind a tensor; None when it has none."""
    storage = tensor.untyped_storage()
    return (storage.data_ptr(), storage.nbytes()) if storage.nbytes() else None


class Kept:
    """Unique storages that autograd saves; parameters and buffers do not count, inputs of the model neither."""

    def __init__(self, model, inputs):
        self.places = Places(model)
        self.skip = {storage_of(t)[0] for t in [*model.parameters(), *model.buffers(), *inputs] if storage_of(t)}
        self.rows = {}
        self.layers = {}  # storage -> layers that save it

    def pack(self, tensor):
        found = storage_of(tensor)
        if found and found[0] not in self.skip:
            key, size = found
            layer, module = self.places.now()
            made_by = tensor.grad_fn.name() if tensor.grad_fn is not None else "-"
            # the tensor stays referenced, so that its memory is not given to another one
            self.rows.setdefault(key, (size, layer, module, made_by, short(tensor.dtype), tuple(tensor.shape), tensor))
            self.layers.setdefault(key, set()).add(layer)
        return tensor

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda tensor: tensor)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)
        self.places.close()

    def of_layer(self, layer, layers):
        """Storages first saved in one layer and not shared by all of them (the rotary table is)."""
        return [row for key, row in self.rows.items() if row[1] == layer and not self._shared(key, layers)]

    def outside(self, layers):
        return [row for key, row in self.rows.items() if row[1] is None or self._shared(key, layers)]

    def _shared(self, key, layers):
        inside = self.layers[key] - {None}
        return layers > 1 and len(inside) == layers


def grouped(rows):
    """The same module, maker, dtype and shape in one line."""
    groups = {}
    for size, _, module, made_by, dtype, shape, tensor in rows:
        key = (module, made_by, dtype, shape, size)
        groups[key] = groups.get(key, 0) + 1
    lines = []
    for (module, made_by, dtype, shape, size), count in groups.items():
        lines.append({"tensor": module, "made_by": made_by, "dtype": dtype, "shape": list(shape), "count": count,
                      "bytes": size * count})
    return sorted(lines, key=lambda line: -line["bytes"])


class Alive(TorchDispatchMode):
    """The storages that operators make, now and when they were most. What a CPU kernel allocates inside itself is not
    seen, nor is what a GPU kernel would allocate."""

    def __init__(self):
        super().__init__()
        self.known, self.now = {}, 0
        self.forget_peak()

    def forget_peak(self):
        self.peak, self.top = 0, []
        self._look()

    def _look(self):
        if self.now > self.peak:
            self.peak, self.top = self.now, list(self.known.values())

    def _gone(self, key):
        self.now -= self.known.pop(key)[0]

    def _see(self, tensor, made_by):
        storage = tensor.untyped_storage()
        if not storage.nbytes() or id(storage) in self.known:
            return
        size = storage.nbytes() if made_by else 0
        self.known[id(storage)] = (size, made_by, tensor.dtype, tuple(tensor.shape))
        self.now += size
        weakref.finalize(storage, self._gone, id(storage)).atexit = False

    def skip(self, tensors):
        """These are not the step's: parameters and inputs."""
        for tensor in tensors:
            self._see(tensor, "")

    def at_peak(self):
        return list(self.top)

    def at_now(self):
        return list(self.known.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_flatten(out)[0]:
            if isinstance(leaf, torch.Tensor):
                self._see(leaf, func.name().replace("aten::", ""))
        self._look()
        return out


@contextlib.contextmanager
def autocast(on):
    with torch.autocast("cpu", dtype=torch.bfloat16) if on else contextlib.nullcontext():
        yield
