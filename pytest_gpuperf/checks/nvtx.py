"""Ranges on the timeline of Nsight Systems: a benchmark, its phases, its trials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class NvtxRanges:
    """Opens and closes ranges through torch."""

    def __init__(self, torch: Any) -> None:
        self._push = torch.cuda.nvtx.range_push
        self._pop = torch.cuda.nvtx.range_pop

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """Mark the body."""
        self._push(name)
        try:
            yield
        finally:
            self._pop()

    def around_each(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the callable with a range around each call of it."""
        push, pop = self._push, self._pop

        def trial(*args: Any, **kwargs: Any) -> Any:
            push("trial")
            try:
                return call(*args, **kwargs)
            finally:
                pop()

        return trial
