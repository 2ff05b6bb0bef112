"""What is exact and needs no test: peak memory and the kernels of one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_gpuperf.compare.kernels import count_launches, kernel_changes
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.samples import RunRecord

MEMORY_SLACK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """An exact metric beyond its tolerance."""

    metric: Literal["peak memory", "kernels"]
    sentence: str


def excess(baseline: Sequence[RunRecord], runs: Sequence[RunRecord], policy: Policy) -> Excess | None:
    """Return the exact metric in which every new run exceeds every baseline run by more than its tolerance.

    Kernels are compared between runs of one kind, fresh with fresh and the sessions' own with their own: what a session
    called before leaves its traces in what is tuned and compiled. Where both kinds can be compared, both have to agree.
    """
    return _more_memory(baseline, runs, policy) or _more_kernels(baseline, runs, policy)


def exact_findings(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return one line for each exact thing that changed."""
    return (*_kernel_changes(baseline, runs), *_memory_changes(baseline, runs))


def _peaks(runs: Sequence[RunRecord]) -> list[int]:
    return [run.peak_memory_bytes for run in runs if run.peak_memory_bytes is not None]


KernelLists = list[tuple[str, ...]]


def _lists(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> Iterator[tuple[KernelLists, KernelLists]]:
    """Yield the lists of both sides for each kind of run that both sides have lists of, fresh runs first."""
    for fresh in (True, False):
        old, new = (
            [run.kernels for run in arm if run.kernels is not None and run.fresh is fresh] for arm in (baseline, runs)
        )
        if old and new:
            yield old, new


def _more_memory(baseline: Sequence[RunRecord], runs: Sequence[RunRecord], policy: Policy) -> Excess | None:
    old, new = _peaks(baseline), _peaks(runs)
    if not old or not new or min(new) <= max(old) * (1 + policy.memory_tolerance) + MEMORY_SLACK_BYTES:
        return None
    return Excess(metric="peak memory", sentence=f"peak memory rose from {size(max(old))} to {size(min(new))}")


def _more_kernels(baseline: Sequence[RunRecord], runs: Sequence[RunRecord], policy: Policy) -> Excess | None:
    counts = [tuple(map(_counts, pair)) for pair in _lists(baseline, runs)]
    if not counts or any(min(new) <= max(old) + policy.kernel_tolerance for old, new in counts):
        return None
    old, new = counts[0]
    return Excess(metric="kernels", sentence=f"one call launches {min(new)} kernels instead of {max(old)}")


def _counts(lists: KernelLists) -> list[int]:
    return [count_launches(names).total() for names in lists]


def _memory_changes(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    old, new = _peaks(baseline), _peaks(runs)
    if not old or not new or min(old) <= min(new) <= max(old) or min(old) <= max(new) <= max(old):
        return []
    return [f"peak memory {size(max(old))} → {size(min(new))}"]


def _kernel_changes(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> list[str]:
    old, new = next(_lists(baseline, runs), ([], []))
    if not old or set(old) & set(new):
        return []
    said = kernel_changes(old[-1], new[-1])
    return [said] if said else []


def size(count_bytes: int) -> str:
    """Return a number of bytes as people read it: `1.5 MiB`."""
    value, units = float(count_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.4g} {units[0]}"
