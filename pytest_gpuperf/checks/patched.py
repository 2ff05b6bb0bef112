"""Functions that measuring and comparing rely on, replaced by someone else's."""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.measure.origins import module_of

CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic")
_ORIGINAL_CLOCKS = {name: getattr(time, name) for name in CLOCKS}
OF_TORCH = (
    "cuda.synchronize", "cuda.Event.record", "cuda.Event.synchronize", "cuda.Event.elapsed_time", "cuda.Event.query",
    "cuda.Event.wait", "cuda.Stream.synchronize", "cuda.current_stream", "testing.assert_close", "allclose", "equal",
    "isclose", "Tensor.__eq__", "Tensor.eq", "Tensor.equal", "Tensor.allclose", "Tensor.isclose", "Tensor.sub",
    "Tensor.__sub__", "Tensor.abs", "Tensor.cpu", "Tensor.to", "Tensor.item", "Tensor.clone", "Tensor.detach",
    "Tensor.copy_", "Tensor.data_ptr", "Tensor.__ne__", "Tensor.ne", "Tensor.max", "Tensor.sum", "where", "isnan",
    "isfinite", "linalg.vector_norm", "testing._comparison.not_close_error_metas", "cuda.Event", "cuda.Stream",
    "profiler.profile",
)  # fmt: skip
"""Timing with events, and comparing outputs."""


def patched_functions(torch: Any) -> tuple[str, ...]:
    """Return the names of functions that are not the originals."""
    clocks = [f"time.{name}" for name in CLOCKS if not _is_clock(name)]
    if torch is None:
        return tuple(clocks)
    root = Path(torch.__file__).parent
    return (*clocks, *(f"torch.{name}" for name in OF_TORCH if not _is_from(root, torch, name)))


def _is_clock(name: str) -> bool:
    present = getattr(time, name)
    return present is _ORIGINAL_CLOCKS[name] and isinstance(present, types.BuiltinFunctionType)


def _is_from(root: Path, torch: Any, dotted: str) -> bool:
    """Whether a function is torch's: compiled, or written in a file of torch. Absent ones are nobody's."""
    value: Any = torch
    for part in dotted.split("."):
        value = getattr(value, part, None)
        if value is None:
            return True
    while hasattr(value, "__wrapped__"):
        if not _written_in(root, value):
            return False
        value = value.__wrapped__
    return _written_in(root, value)


def _written_in(root: Path, value: Any) -> bool:
    if isinstance(value, type):
        file = getattr(sys.modules.get(module_of(value)), "__file__", None)
        return file is not None and Path(file).is_relative_to(root)
    code = getattr(value, "__code__", None)
    if code is None:
        return isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType)
    return Path(code.co_filename).is_relative_to(root) or code.co_filename.startswith("<")


def _look(evidence: Evidence) -> Iterator[str]:
    found = dict.fromkeys((*evidence.first.patched, *patched_functions(evidence.torch)))
    if found:
        yield f"{', '.join(found)} {'is' if len(found) == 1 else 'are'} not the original"


CHECK = Check(name="patched", look=_look, why="times and comparisons that go through it prove nothing")
