"""Watching one call for what makes the host wait for the GPU, and for copies from pageable memory."""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from pytest_gpuperf.checks.places import Place, is_users, place_of_user
from pytest_gpuperf.checks.watching import dispatch_mode

SYNCHRONISING = "called a synchronizing CUDA operation"
READING_METHODS = (
    "item", "tolist", "numpy", "cpu", "__array__", "__bool__", "__float__", "__int__", "__index__", "__complex__",
    "__repr__", "__format__", "__contains__", "__reduce_ex__", "nonzero",
)  # fmt: skip
"""Methods of a tensor that wait for its values."""
READING_OPERATION = "aten._local_scalar_dense"
"""What functions written in C++ read one number with, such as `torch.full`, or an index that is a tensor."""
SIZING_OPERATIONS = re.compile(
    r"aten\.(nonzero|masked_select|_unique2?|unique_dim|unique_consecutive|bincount|equal|allclose|repeat_interleave\.Tensor)\b"
)
"""Operations that wait for values as the size of their output, or the answer itself, depends on them."""
INDEXING_OPERATIONS = re.compile(r"aten\.(index|index_put_?)\b")
"""They do so where an index is a mask."""
WAITING_FUNCTIONS = ("synchronize", "empty_cache", "ipc_collect")
"""Of `torch.cuda`. To give memory back to the driver is to wait for all work."""
COPYING_METHODS = ("to", "cuda", "copy_")
COPYING_FUNCTIONS = ("tensor", "as_tensor", "asarray")
IN_THE_CALLABLE = "the callable itself"


@dataclass(slots=True)
class Waits:
    """What was seen, by the line of the user's code (or `IN_THE_CALLABLE`), with the number of times."""

    waits: dict[str, int] = field(default_factory=dict)
    pageable: dict[str, int] = field(default_factory=dict)
    """Bytes copied to the GPU from pageable memory."""

    def wait(self, frame: Any) -> None:
        """Note a wait in the code that `frame` stands in."""
        place = _named(place_of_user(frame))
        self.waits[place] = self.waits.get(place, 0) + 1

    def copy(self, frame: Any, count_bytes: int) -> None:
        """Note a copy from pageable memory."""
        place = _named(place_of_user(frame))
        self.pageable[place] = self.pageable.get(place, 0) + count_bytes


def _named(place: Place | None) -> str:
    return IN_THE_CALLABLE if place is None else str(place)


def call_under_watch(call: Callable[[], Any]) -> Any:
    """Make the call; places are looked for down to this frame."""
    return call()


def cuda_waits(torch: Any, call: Callable[[], Any]) -> Waits:
    """Make the call once with torch's own reports of synchronisation on, and with what they leave out wrapped."""
    seen = Waits()
    with ExitStack() as stack:
        stack.enter_context(_torch_reports(torch, seen))
        for owner in (torch.cuda, getattr(torch, "accelerator", None)):
            stack.enter_context(_wrapped(owner, WAITING_FUNCTIONS, _noting_waits(seen, [])))
        for owner in (torch.cuda.Event, torch.cuda.Stream):
            stack.enter_context(_wrapped(owner, ("synchronize",), _noting_waits(seen, [])))
        stack.enter_context(_wrapped(torch.Tensor, COPYING_METHODS, _noting_copies(torch, seen)))
        stack.enter_context(_wrapped(torch, COPYING_FUNCTIONS, _noting_copies(torch, seen)))
        call_under_watch(call)
    return seen


def reading_waits(torch: Any, call: Callable[[], Any]) -> Waits:
    """Make the call once and note what would wait, were the tensors on a GPU.

    Numbers that torch's own code reads are left out: optimisers keep some on the CPU, on a GPU too.
    """
    seen = Waits()
    inside: list[bool] = []

    def note(operation: Any, args: Any, _kwargs: Any, _output: Any) -> None:
        frame = sys._getframe(1)
        by_number = str(operation).startswith(READING_OPERATION) and is_users(frame)
        if not inside and (by_number or _depends_on_values(operation, args, torch)):
            seen.wait(frame)

    with _wrapped(torch.Tensor, READING_METHODS, _noting_waits(seen, inside, direct=True)), dispatch_mode(note):
        call_under_watch(call)
    return seen


def _depends_on_values(operation: Any, args: Any, torch: Any) -> bool:
    if INDEXING_OPERATIONS.match(str(operation)):
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return SIZING_OPERATIONS.match(str(operation)) is not None


@contextmanager
def _torch_reports(torch: Any, seen: Waits) -> Iterator[None]:
    """Turn torch's warnings of synchronisation into notes of where they happened."""

    def show(message: Any, *_args: Any, **_kwargs: Any) -> None:
        if SYNCHRONISING in str(message):
            seen.wait(sys._getframe(1))

    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # The instance is the module's own for the time of the block: catch_warnings puts the old one back.
        warnings.showwarning = show
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)


Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextmanager
def _wrapped(owner: Any, names: tuple[str, ...], wrap: Wrap) -> Iterator[None]:
    """Replace attributes of a module or class for the time of the body."""
    present = [name for name in names if hasattr(owner, name)]
    own = {name: vars(owner)[name] for name in present if name in vars(owner)}
    for name in present:
        setattr(owner, name, wrap(getattr(owner, name)))
    try:
        yield
    finally:
        for name in present:
            if name in own:
                setattr(owner, name, own[name])
            else:
                delattr(owner, name)


def _noting_waits(seen: Waits, inside: list[bool], *, direct: bool = False) -> Wrap:
    """Return what notes each call of a function; `direct`: only calls that the user's own code makes.

    `inside` holds something meanwhile.
    """

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if inside:  # printing a tensor reads many of its elements: that is one wait
                return original(*args, **kwargs)
            caller = sys._getframe(1)
            if not direct or is_users(caller):
                seen.wait(caller)
            inside.append(True)
            try:
                return original(*args, **kwargs)
            finally:
                inside.pop()

        return wrapper

    return wrap


def _noting_copies(torch: Any, seen: Waits) -> Wrap:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            output = original(*args, **kwargs)
            source = args[1] if original.__name__ == "copy_" and len(args) > 1 else args[0] if args else None
            if _is_pageable(source, torch) and isinstance(output, torch.Tensor) and output.device.type == "cuda":
                seen.copy(sys._getframe(1), output.numel() * output.element_size())
            return output

        return wrapper

    return wrap


def _is_pageable(source: Any, torch: Any) -> bool:
    """Whether a copy's source is in host memory that the GPU cannot read by itself."""
    if isinstance(source, torch.Tensor):
        return source.device.type == "cpu" and not source.is_pinned()
    return source is not None
