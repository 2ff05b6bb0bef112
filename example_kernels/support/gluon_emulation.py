"""Run warp-specialised Gluon kernels on the CPU, to check what they compute and that nobody waits for ever.

The kernel's own Python source runs, over torch tensors: a thread for every partition, barriers with phases and byte
counts, a copy engine that works later than it is asked to, products of matrices that are computed when they are waited
for, buffers that hold NaN until a copy is complete. A wait that is missing or misplaced shows as NaN, or as a time-out.
What it cannot show is whatever the hardware alone decides: registers, fences, memory layouts.
"""

from __future__ import annotations

import importlib
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

DEADLOCK_S = 30.0
GLUON = "triton.experimental.gluon"
HOPPER = f"{GLUON}.language.nvidia.hopper"

_running = threading.local()


class EmulationError(RuntimeError):
    """A kernel waited in vain, or asked for what the hardware would not do."""


class Int(int):
    """An integer that can be cast like a kernel's scalars, and stays one under arithmetic."""

    def to(self, _dtype: Any) -> Int:
        """Return itself: Python integers do not overflow."""
        return self


def _keeps_int(name: str) -> Callable[[int, int], Any]:
    plain = getattr(int, name)

    def operate(self: int, other: int) -> Any:
        result = plain(self, other)
        return Int(result) if type(result) is int else result

    return operate


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "mod", "and", "xor"):
    setattr(Int, f"__{_name}__", _keeps_int(f"__{_name}__"))


class Barrier:
    """An mbarrier: a phase ends when all arrivals and all announced bytes are in."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._phase = 0
        self._count = self._arrivals = self._bytes = 0

    def init(self, count: int) -> None:
        """Set how many arrivals end a phase."""
        self._count = self._arrivals = count

    def arrive(self, arrivals: int = 0, announced_bytes: int = 0, copied_bytes: int = 0) -> None:
        """Count arrivals, and bytes announced or copied; end the phase when nothing is outstanding."""
        with self._condition:
            self._arrivals -= arrivals
            self._bytes += announced_bytes - copied_bytes
            if self._arrivals < 0:
                raise EmulationError("more arrivals than the barrier was made for")
            if self._arrivals == 0 and self._bytes == 0:
                self._phase += 1
                self._arrivals = self._count
                self._condition.notify_all()

    def wait(self, parity: int) -> None:
        """Return once the phase of this parity has ended; raise EmulationError if it does not."""
        with self._condition:
            if not self._condition.wait_for(lambda: self._phase % 2 != parity, DEADLOCK_S):
                raise EmulationError("waited in vain for a barrier")


class Barriers:
    """Barriers in shared memory."""

    def __init__(self, count: int) -> None:
        self._barriers = [Barrier() for _ in range(count)]

    def index(self, i: int) -> Barrier:
        """Return one of them."""
        return self._barriers[i]


class Memory:
    """A buffer in shared memory, or a view of one; NaN where nothing was written."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    @property
    def shape(self) -> list[int]:
        """Return the extents."""
        return list(self.data.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Return the type of an element."""
        return self.data.dtype

    def index(self, i: int) -> Memory:
        """Return the buffer at `i` of the first dimension."""
        return Memory(self.data[i])

    def reshape(self, shape: Sequence[int]) -> Memory:
        """Return a view in another shape."""
        return Memory(self.data.view(list(shape)))

    def permute(self, order: Sequence[int]) -> Memory:
        """Return a view with its dimensions in another order."""
        return Memory(self.data.permute(*order))

    def load(self, _layout: Any) -> torch.Tensor:
        """Return the contents in registers."""
        return self.data.clone()

    def store(self, value: torch.Tensor) -> None:
        """Write registers into the buffer."""
        self.data.copy_(value)


class Pointer:
    """An address: a flat tensor and offsets into it."""

    def __init__(self, base: torch.Tensor, offset: Any = 0) -> None:
        self.base, self.offset = base, offset

    def __add__(self, other: Any) -> Pointer:
        return Pointer(self.base, self.offset + other)


class Descriptor:
    """A tensor descriptor: a tensor and the block that one copy moves."""

    def __init__(self, tensor: torch.Tensor, block: Sequence[int]) -> None:
        nbytes = tensor.element_size() * torch.Size(block).numel()
        self.tensor, self.dtype, self.layout = tensor, tensor.dtype, None
        self.block_type = SimpleNamespace(shape=list(block), nbytes=nbytes)

    def _regions(self, corner: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Return where the block meets the tensor, in the tensor's coordinates and in the block's."""
        sizes = zip(corner, self.block_type.shape, self.tensor.shape, strict=True)
        lengths = [max(0, min(extent, size - start)) for start, extent, size in sizes]
        outside = tuple(slice(start, start + n) for start, n in zip(corner, lengths, strict=True))
        return outside, tuple(slice(0, n) for n in lengths)

    def read(self, corner: Sequence[int]) -> torch.Tensor:
        """Return the block at `corner`, zeros beyond the tensor."""
        outside, inside = self._regions(corner)
        block = torch.zeros(self.block_type.shape, dtype=self.dtype)
        block[inside] = self.tensor[outside]
        return block

    def write(self, corner: Sequence[int], block: torch.Tensor) -> None:
        """Write what of the block at `corner` lies inside the tensor."""
        outside, inside = self._regions(corner)
        self.tensor[outside] = block.view(self.block_type.shape)[inside]


class Product:
    """A product of matrices under way: its factors are read when it is waited for, and must not change before."""

    def __init__(self, a: Any, b: Memory, acc: Any, use_acc: bool) -> None:
        self._a, self._b, self._acc, self._use_acc = a, b, acc, use_acc
        self.value: torch.Tensor | None = None

    def finish(self) -> None:
        """Compute the product from what its factors hold now."""
        a = self._a.data if isinstance(self._a, Memory) else self._a
        product = a.float() @ self._b.data.float()
        acc = self._acc.value if isinstance(self._acc, Product) else self._acc
        self.value = acc + product if self._use_acc else product


def _multiply(a: Any, b: Memory, acc: Any, *, use_acc: bool = True, is_async: bool = False) -> Any:
    product = Product(a, b, acc, use_acc)
    _running.products.append(product)
    return product if is_async else _finish(0, [product])


def _finish(outstanding: int, deps: Sequence[Any]) -> Any:
    done = len(_running.products) - outstanding
    for product in _running.products[:done]:
        product.finish()
    del _running.products[: max(0, done)]
    results = tuple(d.value if isinstance(d, Product) else d for d in deps)
    return results[0] if len(results) == 1 else results


def _copy_in(descriptor: Descriptor, corner: Sequence[int], barrier: Barrier, memory: Memory) -> None:
    memory.data.fill_(float("nan"))

    def copy() -> None:
        memory.data.copy_(descriptor.read(corner).view(memory.data.shape))
        barrier.arrive(copied_bytes=descriptor.block_type.nbytes)

    _running.copies.put(copy)


def _copy_out(descriptor: Descriptor, corner: Sequence[int], memory: Memory) -> None:
    _running.stores.append(lambda: descriptor.write(corner, memory.data))


def _finish_stores(_pending: int) -> None:
    for store in _running.stores:
        store()
    _running.stores.clear()


def _specialise(partitions: Sequence[tuple[Callable[..., None], tuple[Any, ...]]], *_: Any) -> None:
    """Run each partition in a thread, beside a thread that copies."""
    errors: list[BaseException] = []
    copies: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
    program = _running.program

    def run(function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        _running.program, _running.copies, _running.products, _running.stores = program, copies, [], []
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)

    def copy() -> None:
        while (job := copies.get()) is not None:
            job()

    threads = [threading.Thread(target=run, args=partition, daemon=True) for partition in partitions]
    engine = threading.Thread(target=copy, daemon=True)
    for thread in [engine, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    copies.put(None)
    engine.join()
    if errors:
        raise errors[0]


def _allocate(dtype: torch.dtype, shape: Sequence[int], _layout: Any) -> Memory | Barriers:
    if dtype == torch.int64:
        return Barriers(shape[0])
    return Memory(torch.full(list(shape), float("nan"), dtype=dtype))


def _store(pointer: Pointer, value: torch.Tensor, mask: torch.Tensor) -> None:
    pointer.base[pointer.offset[mask]] = value[mask]


def _smaller(a: Any, b: Any) -> Any:
    return torch.minimum(a, b) if isinstance(a, torch.Tensor) else Int(min(a, b))


def _larger(a: Any, b: Any) -> Any:
    return torch.maximum(a, b) if isinstance(a, torch.Tensor) else Int(max(a, b))


def _range(*bounds: int) -> Iterator[Int]:
    return map(Int, range(*bounds))


def _no_layout(*_: Any) -> None:
    """Tensors here have no layout."""


def _language() -> ModuleType:
    names = {
        "constexpr": lambda x: x,
        "minimum": _smaller,
        "maximum": _larger,
        "where": torch.where,
        "exp2": torch.exp2,
        "log2": torch.log2,
        "max": lambda x, axis: x.amax(axis),
        "sum": lambda x, axis: x.sum(axis),
        "zeros": lambda shape, dtype, *_: torch.zeros(shape, dtype=dtype),
        "full": lambda shape, value, dtype, *_: torch.full(shape, value, dtype=dtype),
        "arange": lambda start, end, *_: torch.arange(start, end),
        "convert_layout": lambda x, *_: x,
        "static_range": _range,
        "program_id": lambda _axis: _running.program[0],
        "num_programs": lambda _axis: _running.program[1],
        "load": lambda pointer: pointer.base[pointer.offset],
        "store": _store,
        "allocate_shared_memory": _allocate,
        "warp_specialize": _specialise,
        "SliceLayout": _no_layout,
        "NVMMADistributedLayout": _no_layout,
        "DotOperandLayout": _no_layout,
        "float32": torch.float32,
        "int64": torch.int64,
    }
    module = ModuleType(f"{GLUON}.language")
    module.__dict__.update(names)
    return module


def _hopper() -> ModuleType:
    module = ModuleType(HOPPER)
    module.__dict__.update(
        fence_async_shared=lambda: None,
        warpgroup_mma=_multiply,
        warpgroup_mma_wait=_finish,
        mbarrier=SimpleNamespace(
            MBarrierLayout=SimpleNamespace,
            init=lambda barrier, count: barrier.init(count),
            expect=lambda barrier, nbytes: barrier.arrive(1, announced_bytes=nbytes),
            arrive=lambda barrier, count: barrier.arrive(count),
            wait=lambda barrier, parity: barrier.wait(parity),
        ),
        tma=SimpleNamespace(
            async_copy_global_to_shared=_copy_in, async_copy_shared_to_global=_copy_out, store_wait=_finish_stores
        ),
    )
    return module


def load_emulated(*modules: str) -> dict[str, Any]:
    """Import kernel modules anew over the emulated language, and return their names; later ones may import earlier."""
    gluon = ModuleType(GLUON)
    gluon.__dict__.update(jit=lambda function: function, language=_language())
    replaced = {"triton.experimental": ModuleType("triton.experimental"), GLUON: gluon, HOPPER: _hopper()}
    replaced["triton.experimental"].__dict__["gluon"] = gluon
    before = {name: sys.modules.pop(name, None) for name in [*replaced, *modules]}
    sys.modules.update(replaced)
    try:
        loaded = [importlib.import_module(name) for name in modules]
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
    names: dict[str, Any] = {}
    for module in loaded:
        module.__dict__["range"] = _range
        names.update(module.__dict__)
    return names


def launch(kernel: Callable[..., None], programs: int, *arguments: Any, **constants: Any) -> None:
    """Run every program of an emulated kernel, one after another."""
    for program in range(programs):
        _running.program = (Int(program), Int(programs))
        kernel(*arguments, **constants)
