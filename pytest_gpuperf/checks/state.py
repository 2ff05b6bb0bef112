"""Settings of the whole process that a call leaves otherwise than it found them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence

_OF_TORCH: dict[str, Callable[[Any], object]] = {
    "the default dtype": lambda torch: torch.get_default_dtype(),
    "the default device": lambda torch: torch.get_default_device(),
    "the number of threads": lambda torch: torch.get_num_threads(),
    "the recording of gradients": lambda torch: torch.is_grad_enabled(),
    "the mode of deterministic algorithms": lambda torch: torch.get_deterministic_debug_mode(),
    "the precision of fp32 matmuls": lambda torch: torch.backends.cuda.matmul.fp32_precision,
    "cuDNN's benchmark mode": lambda torch: torch.backends.cudnn.benchmark,
}


def process_state(torch: Any) -> dict[str, str]:
    """Return what everything in this process runs under, in words."""
    found: dict[str, object] = {"garbage collection": "on" if gc.isenabled() else "off"}
    if torch is not None:
        found.update((what, ask(torch)) for what, ask in _OF_TORCH.items())
    return {what: str(value) for what, value in found.items()}


def state_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return what differs, as phrases."""
    return tuple(
        f"{what} was {value} before a call and is {after[what]} after it"
        for what, value in before.items()
        if after.get(what, value) != value
    )


def _look(evidence: Evidence) -> Iterator[str]:
    yield from evidence.first.state_changes


CHECK = Check(
    name="state",
    look=_look,
    why="whatever is measured after it in this process runs under other conditions than by itself",
    instead="put it back within the call",
)
