"""What a result says about itself beside its figures."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.samples import Trials

if TYPE_CHECKING:
    from pytest_gpuperf.measure.backends.base import Timer

AUTO_NOTE = "timer auto: "
"""Begins the note on what `auto` chose, and from which figures."""
UNQUEUED_NOTE = "unqueued: the call waits for the device or overfills its queue; the host's time is in the figure"
LAUNCH_BOUND_NOTE = "launch-bound: the host takes longer to dispatch the call than the device to run it"
AT_FLOOR_NOTE = (
    "no longer than the timer reads around nothing: the work is shorter than it can tell, or runs on another stream"
)
FLOOR_MATTERS_SHARE = 0.1
AT_FLOOR_RATIO = 1.3


def told_us(time_us: float) -> str:
    """Return a time to two digits or to whole microseconds, never with an exponent for a long one."""
    return f"{time_us:.0f} us" if time_us >= 99.5 else f"{time_us:.2g} us"


def result_notes(trials: Trials, timer: Timer, *, unqueued: bool) -> tuple[str, ...]:
    """Return the notes that follow from the figures: launch-bound, or close to what the timer reads around nothing.

    The host's time of an `unqueued` call includes waiting for the device, so that it says nothing about dispatch.
    """
    time_us = median(trials.times_us)
    notes = []
    if trials.host_us and median(trials.host_us) > time_us and not unqueued:
        notes.append(LAUNCH_BOUND_NOTE)
    if timer.floor_us * AT_FLOOR_RATIO >= time_us:
        notes.append(AT_FLOOR_NOTE)
    elif timer.floor_us >= FLOOR_MATTERS_SHARE * time_us:
        notes.append(f"short for this timer, which reads {told_us(timer.floor_us)} around nothing")
    return tuple(notes)
