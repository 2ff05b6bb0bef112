"""Work outside the timer's sight: on streams that are not joined, or in threads that go on."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.launches import Observed, busy_us
from pytest_gpuperf.measure.notes import told_us

SEEN_SHARE = 0.5
"""A timer that sees less than this of the time that the device is busy has missed some; clocks differ by less."""


def unseen(observed: tuple[Observed, ...], timed_us: float) -> str:
    """Compare the time that the device is busy with one call, the least of several, with what the timer saw of it."""
    least_us = min(busy_us(one.launches) for one in observed)
    if timed_us >= SEEN_SHARE * least_us:
        return ""
    streams = sorted({launch.stream for launch in observed[0].launches})
    where = f" on streams {', '.join(map(str, streams))}" if len(streams) > 1 else ""
    return f"one call keeps the GPU busy for {told_us(least_us)}{where}, of which the timer saw {told_us(timed_us)}"


def _look(evidence: Evidence) -> Iterator[str]:
    if evidence.on_gpu and evidence.timed is not None:
        observed = (*evidence.pair, evidence.fresh.observed)
        said = unseen(observed, evidence.timed.record.mean_us)
        if said:
            yield said
            return
    yield from _late(evidence)


def _late(evidence: Evidence) -> Iterator[str]:
    poisoned = evidence.poisoned
    if poisoned.is_late:
        yield "the output changes after the call has returned"
    elif poisoned.left_running:
        yield f"the call leaves threads running that it started: {', '.join(sorted(poisoned.left_running))}"


CHECK = Check(
    name="streams",
    look=_look,
    why="work that is still to come when the call returns is not in its time",
    instead="join side streams (`torch.cuda.current_stream().wait_stream(side)`) and threads",
)
