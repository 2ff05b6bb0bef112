"""The benchmark that checks look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_gpuperf.measure.origins import attribute_of

Inputs = tuple[Sequence[Any], Mapping[str, Any]]

MARKED_IN_PLACE = "_"
SYNC = "sync"
"""The check that can be asked for on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A callable as the test stated it, with what is expected of it."""

    fn: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    setup: Callable[[], Inputs] | None = None
    reference: Callable[..., Any] | None = None
    device: str = "cpu"
    max_kernels: int | None = None
    extra_checks: tuple[str, ...] = ()
    """Checks to make though the device gives no reason to."""

    def inputs(self) -> Inputs:
        """Return the arguments of one more call."""
        return (self.args, self.kwargs) if self.setup is None else self.setup()

    @property
    def works_in_place(self) -> bool:
        """Whether the test says that arguments are written to.

        By `setup`, which gives every call its own; by torch's naming of operations in place (`relu_`); or by an
        argument of the name `out`.
        """
        name = attribute_of(self.fn, "__name__")
        in_place = isinstance(name, str) and name.endswith(MARKED_IN_PLACE) and not name.endswith("__")
        return self.setup is not None or in_place or "out" in self.kwargs
