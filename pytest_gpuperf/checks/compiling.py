"""Compiling and tuning while a benchmark is warmed up and timed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence

FEWEST = 2
"""The verified call has compiled already; one more time may be a second variant, such as for another alignment."""


class Compilations:
    """Counts what torch.compile and Triton compile, and what Triton's autotuner tries, while it is watching."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count during the body. Nothing is in the way of a call that compiles nothing."""
        before = _graphs()
        with self._triton_counted():
            try:
                yield
            finally:
                self.count += _graphs() - before

    @contextmanager
    def _triton_counted(self) -> Iterator[None]:
        patches = [*_patch(self, "triton.runtime.jit", "JITFunction", ("_do_compile",))]
        patches += _patch(self, "triton.runtime.autotuner", "Autotuner", ("_bench",))
        try:
            yield
        finally:
            for owner, name, original in patches:
                setattr(owner, name, original)


def _graphs() -> int:
    """How many graphs torch.compile has compiled in this process."""
    utilities = sys.modules.get("torch._dynamo.utils")
    counters: Any = getattr(utilities, "counters", {})
    return int(counters["stats"]["unique_graphs"]) if "stats" in counters else 0


def _patch(
    counter: Compilations, module: str, owner_name: str, names: tuple[str, ...]
) -> Iterator[tuple[Any, str, Any]]:
    """Let methods of a class of Triton's count their calls; yield what puts the originals back."""
    owner = getattr(sys.modules.get(module), owner_name, None)
    for name in names:
        original = getattr(owner, name, None)
        if original is None:
            continue

        def counting(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
            counter.count += 1
            return _original(*args, **kwargs)

        setattr(owner, name, counting)
        yield owner, name, original


def _look(evidence: Evidence) -> Iterator[str]:
    count = 0 if evidence.timed is None else evidence.timed.compilations
    if count >= FEWEST:
        yield f"something was compiled or tuned {count} times after the verified call"


CHECK = Check(
    name="compiling",
    look=_look,
    why="time goes into the compiler, in some trials and not in others",
    instead="keep shapes, dtypes and constants the same from call to call",
)
