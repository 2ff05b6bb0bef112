"""Warm-up: call until clocks, caches and allocators have settled, through the timer that will be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.garbage import collect_young_garbage

if TYPE_CHECKING:
    from pytest_gpuperf.measure.backends.base import Timer

BLOCKS_COMPARED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupPolicy:
    """How long a device must work before it has settled."""

    least_work_us: float
    """Work of the device itself, not time spent waiting for the host."""
    block_work_us: float
    """Work in each of the blocks whose medians are compared."""
    batch_trials: int
    """Trials asked of the timer at a time."""
    longest_us: float
    """Warm-up ends here even if nothing has settled, once the number of calls is reached."""
    tolerance: float
    """Settled: the last `BLOCKS_COMPARED` block medians agree within this share."""


def warm_up(timer: Timer, target: Target, calls: int, policy: WarmupPolicy, now_us: Callable[[], float]) -> None:
    """Time and throw away: at least `calls` calls and the policy's work, until settled or out of time."""
    deadline_us = now_us() + policy.longest_us
    medians: list[float] = []
    done, work_us = 0, 0.0
    while done < calls or (
        now_us() < deadline_us and not (work_us >= policy.least_work_us and settled(medians, policy))
    ):
        block_trials, block_us = _block(timer, target, policy, deadline_us, now_us)
        done += len(block_trials)
        work_us += block_us
        medians.append(median(block_trials))
        collect_young_garbage()


def settled(medians: Sequence[float], policy: WarmupPolicy) -> bool:
    """Whether the last block medians agree within the policy's tolerance."""
    last = medians[-BLOCKS_COMPARED:]
    return len(last) == BLOCKS_COMPARED and max(last) <= min(last) * (1.0 + policy.tolerance)


def _block(
    timer: Timer, target: Target, policy: WarmupPolicy, deadline_us: float, now_us: Callable[[], float]
) -> tuple[list[float], float]:
    """Run batches for one block's work; return their times and the work in microseconds."""
    times: list[float] = []
    work_us = 0.0
    while not times or (work_us < policy.block_work_us and now_us() < deadline_us):
        batch = timer.batch(target, policy.batch_trials)
        times += batch.times_us
        work_us += batch.work_us
    return times, work_us
