"""What one call gave the device to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SHRUNK_SHARE = 0.25
"""Of the work of an early call that must be missing from a later one: constants computed once weigh less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel, copy or memset on a GPU, or one operation of torch on the CPU."""

    name: str
    start_us: float = 0.0
    duration_us: float = 0.0
    stream: int = 0
    elements: int = 0
    """Of the output of an operation on the CPU."""

    @property
    def end_us(self) -> float:
        """When it was done."""
        return self.start_us + self.duration_us

    @property
    def work(self) -> float:
        """Its weight in a call: the time on a GPU, the number of elements on the CPU."""
        return self.duration_us or max(1.0, self.elements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One call that was watched: what it returned, and what it launched."""

    output: Any
    launches: tuple[Launch, ...]
    samples: tuple[Any, ...] = ()
    """Of the output's floating tensors, taken before anything else was called: later calls may reuse their memory."""
    written: tuple[Any, ...] = ()
    """The same of arguments that such calls write to."""
    memory: tuple[tuple[str, int], ...] = ()
    """Where the output's tensors are."""

    @property
    def names(self) -> Counter[str]:
        """How often each was launched."""
        return Counter(launch.name for launch in self.launches)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUse:
    """What one kernel takes of a call: launches, their time together, and the streams they ran on."""

    name: str
    launches: int
    time_us: float
    streams: tuple[int, ...]


def kernel_uses(launches: Sequence[Launch]) -> tuple[KernelUse, ...]:
    """Sum up the launches by name, the longest first."""
    by_name: dict[str, list[Launch]] = {}
    for launch in launches:
        by_name.setdefault(launch.name, []).append(launch)
    uses = [
        KernelUse(
            name=name,
            launches=len(group),
            time_us=sum(launch.duration_us for launch in group),
            streams=tuple(sorted({launch.stream for launch in group})),
        )
        for name, group in by_name.items()
    ]
    return tuple(sorted(uses, key=lambda use: -use.time_us))


def busy_us(launches: Sequence[Launch]) -> float:
    """Return how long the device was busy with at least one of the launches."""
    busy, until = 0.0, float("-inf")
    for launch in sorted(launches, key=lambda launch: launch.start_us):
        busy += max(0.0, launch.end_us - max(launch.start_us, until))
        until = max(until, launch.end_us)
    return busy


def missing(early: Observed, late: Observed) -> Counter[str]:
    """Return what `late` lacks of `early` where it does the rest and nothing else; empty otherwise.

    Empty too where what is missing is under a quarter of the early call's work.
    """
    if late.names - early.names:
        return Counter()
    gone = early.names - late.names
    return gone if _work(early, gone) >= SHRUNK_SHARE * _work(early, early.names) else Counter()


def _work(observed: Observed, names: Counter[str]) -> float:
    of_each: dict[str, float] = {}
    for launch in observed.launches:
        of_each[launch.name] = of_each.get(launch.name, 0.0) + launch.work
    return sum(count * of_each[name] / observed.names[name] for name, count in names.items())


def listed(names: Counter[str], most: int = 3) -> str:
    """Name a few of them: `softmax, mul ×2 and 4 more`."""
    shown = [name + (f" ×{count}" if count > 1 else "") for name, count in names.most_common(most)]
    hidden = len(names) - len(shown)
    return ", ".join(shown) + (f" and {hidden} more" if hidden else "")
