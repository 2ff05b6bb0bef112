"""Inputs of its own for every call of a graph, so that no call finds what another one left in the cache."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.held_tensors import held_tensor
from pytest_gpuperf.measure.tensors import DEPTH, is_plain, mapped

ALIGNMENT_BYTES = 512
"""Of the allocator's blocks: a copy lies as the original does, as far as any kernel can tell."""


class NotRotatableError(Exception):
    """A call cannot be given copies of its inputs; the message says why."""


@dataclass(frozen=True, slots=True)
class _Span:
    """The part of one storage that the arguments use, in bytes."""

    storage: Any
    low: int
    high: int


class Rotation:
    """A call's arguments, and copies of them."""

    def __init__(self, target: Target, torch: Any, device_type: str = "cuda") -> None:
        """Raise `NotRotatableError` where not everything that the call reads can be copied, as far as can be seen."""
        self._torch = torch
        self._device_type = device_type
        self._fn, self._args, self._kwargs = _parts(target)
        held = held_tensor(self._fn, torch, device_type)
        if held is not None:
            raise NotRotatableError(f"the function holds a tensor itself ({held}) that is not among its arguments")
        tensors = list(self._tensors((self._args, self._kwargs), DEPTH))
        if not tensors:
            raise NotRotatableError("it has no tensor argument on the device")
        self._spans = _spans(tensors)
        self.size_bytes = sum(span.high - span.low for span in self._spans.values())
        """What the inputs of one call take."""

    def call(self) -> Callable[[], Any]:
        """Return the call on fresh copies of its inputs; what shares memory in the original does so in the copy."""
        torch = self._torch
        with torch.no_grad():
            memory = {key: self._copied(span) for key, span in self._spans.items()}
        made: dict[int, Any] = {}

        def copy(tensor: Any) -> Any:
            if tensor.device.type != self._device_type:
                return tensor
            if id(tensor) not in made:
                key = _storage_key(tensor)
                made[id(tensor)] = _rebuilt(tensor, memory[key], self._spans[key].low, torch)
            return made[id(tensor)]

        args, kwargs = (mapped(value, copy, torch, DEPTH + 1) for value in (self._args, self._kwargs))
        return functools.partial(self._fn, *args, **kwargs)

    def _tensors(self, value: Any, depth: int) -> Iterator[Any]:
        """Yield the tensors to copy; refuse those that cannot be, wherever they are."""
        torch = self._torch
        if isinstance(value, torch.Tensor):
            if value.device.type != self._device_type:
                return
            if not is_plain(value, torch) or value.is_conj() or value.is_neg():
                raise NotRotatableError(f"an argument is a {type(value).__name__} that cannot be copied as it is")
            yield value
        elif depth >= 0 and type(value) in (tuple, list):
            for item in value:
                yield from self._tensors(item, depth - 1)
        elif depth >= 0 and type(value) is dict:
            for item in value.values():
                yield from self._tensors(item, depth - 1)
        else:
            held = held_tensor(value, torch, self._device_type)
            if held is not None:
                raise NotRotatableError(f"an argument ({type(value).__name__}) holds a tensor itself ({held})")

    def _copied(self, span: _Span) -> Any:
        """Return memory that holds the span at the same place within an aligned block."""
        torch = self._torch
        size_bytes, shift = span.high - span.low, span.low % ALIGNMENT_BYTES
        memory = torch.empty(size_bytes + shift, dtype=torch.uint8, device=span.storage.device)
        source = torch.empty(0, dtype=torch.uint8, device=span.storage.device)
        source.set_(span.storage, span.low, (size_bytes,), (1,))
        memory[shift:].copy_(source)
        return memory.untyped_storage()


def _parts(target: Target) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return a call's function and arguments, which show where it is a `functools.partial`."""
    if target.setup is not None:
        raise NotRotatableError("its `setup` makes fresh arguments for every call, which a graph cannot")
    if isinstance(target.call, functools.partial):
        return target.call.func, target.call.args, dict(target.call.keywords)
    return target.call, (), {}


def _spans(tensors: list[Any]) -> dict[int, _Span]:
    spans: dict[int, _Span] = {}
    for tensor in tensors:
        size_bytes, key = tensor.element_size(), _storage_key(tensor)
        low = tensor.storage_offset() * size_bytes
        high = low + _reach(tensor) * size_bytes
        if key in spans:
            low, high = min(low, spans[key].low), max(high, spans[key].high)
        spans[key] = _Span(tensor.untyped_storage(), low, high)
    return spans


def _storage_key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _reach(tensor: Any) -> int:
    """Return how many elements of memory lie between a tensor's first and last, both included."""
    if not tensor.numel():
        return 0
    return int(1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)))


def _rebuilt(tensor: Any, storage: Any, low: int, torch: Any) -> Any:
    """Return the like of a tensor on a copy of its memory whose block began at byte `low`."""
    at_bytes = tensor.storage_offset() * tensor.element_size() - low + low % ALIGNMENT_BYTES
    offset = at_bytes // tensor.element_size()
    with torch.no_grad():
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(storage, offset, tensor.shape, tensor.stride())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)
