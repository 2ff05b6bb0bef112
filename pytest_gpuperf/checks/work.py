"""Calls that do nothing, or less than the first ones did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.known_calls import Early
from pytest_gpuperf.checks.launches import SHRUNK_SHARE, Observed, listed, missing
from pytest_gpuperf.measure.notes import told_us

UNTIMED_SHARE = 5.0
LEAST_UNTIMED_US = 100.0
"""No cold cache makes the shortest of several calls in a row so much slower."""


def shrunk(early: Observed, late: Observed) -> str:
    """Say what an early call did that a later one on the same values does not."""
    if gone := missing(early, late):
        return f"after the timed calls, a call no longer runs {listed(gone)}"
    before, now = (sum(launch.elements for launch in observed.launches) for observed in (early, late))
    if late.names == early.names and now < (1 - SHRUNK_SHARE) * before:
        return f"after the timed calls, a call works out {now} elements instead of {before}"
    return ""


def _look(evidence: Evidence) -> Iterator[str]:
    early = evidence.early
    if early is not None and (said := _shrunk(early, evidence)):
        yield said
    elif not evidence.on_gpu and _does_nothing(evidence):
        yield "a call runs no operation, and its output does not depend on its inputs"


def _shrunk(early: Early, evidence: Evidence) -> str:
    """Compare with the second early call, and with the first and its random numbers.

    What is no longer done was done once for all, if the output is what it was, and another for other inputs; or for
    what the callable holds, if its output comes from that.
    """
    if not _is_steady(early, evidence) or not shrunk(early.again, evidence.revisited):
        return ""
    now, torch = evidence.revisited_alike, evidence.torch
    is_as_it_was = tensors.same_samples(early.observed.samples, now.samples, torch)
    follows = bool(now.samples) and not tensors.same_samples(evidence.repeated.samples, now.samples, torch)
    if (is_as_it_was and follows) or not (said := shrunk(early.observed, now)):
        return ""
    return "" if evidence.has_memory else said


def _look_at_time(evidence: Evidence) -> Iterator[str]:
    """See whether calls take much longer when nobody times them: what looks at its callers may do less for the timer.

    On a GPU, the time that it is busy with a watched call says as much.
    """
    if evidence.on_gpu or evidence.timed is None:
        return
    timed_us = evidence.timed.record.p95_us
    bound_us = slowest_untimed_us(timed_us)
    if (plain_us := evidence.plain_us(bound_us)) > bound_us:
        yield f"outside of the timed region a call takes {told_us(plain_us)}, within it {told_us(timed_us)}"


def slowest_untimed_us(timed_us: float) -> float:
    """Return what an honest call may take when nobody times it."""
    return max(LEAST_UNTIMED_US, UNTIMED_SHARE * timed_us)


def _is_steady(early: Early, evidence: Evidence) -> bool:
    """Whether the early calls did the same, on inputs that are still the same."""
    return early.observed.names == early.again.names and early.sums == evidence.sums()


def _does_nothing(evidence: Evidence) -> bool:
    """Whether a call that takes tensors runs nothing; on a GPU such a call is refused before it is timed."""
    floating = [t for t in evidence.arguments.values() if tensors.is_floating(t)]
    usual, now = evidence.repeated, evidence.fresh.observed
    if not floating or usual.launches or now.launches or evidence.changed:
        return False
    if not usual.samples:
        return usual.output is None
    return len(usual.samples) == len(now.samples) and all(map(_same, usual.samples, now.samples))


def _same(one: Any, other: Any) -> bool:
    return bool(one.shape == other.shape and ((one == other) | (one.isnan() & other.isnan())).all())


_WHY = "the time is that of something else than was verified"
CHECK = Check(name="work", look=_look, why=_WHY)
UNTIMED = Check(name="work", look=_look_at_time, why=_WHY)
