"""A first look at a call with events: how long it takes, and whether it can be queued."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.timers.events import EventsTimer
from pytest_gpuperf.measure.timers.rig import Rig

TRIALS = 10
ENOUGH_US = 20_000.0
"""A longer look would cost more than it tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """One call as events saw it."""

    read_us: float
    """Between the events."""
    floor_us: float
    """Between events around nothing."""
    host_us: float
    queued: bool
    """Whether the call leaves the device alone until it has returned."""
    nothing: bool
    """Whether it cannot be told from no work at all."""

    @property
    def net_us(self) -> float:
        """What is above the floor: of a short kernel a microsecond or two more than it takes."""
        return max(self.read_us - self.floor_us, 0.0)

    @property
    def launch_bound(self) -> bool:
        """Whether the host takes longer to dispatch the call than the device to run it."""
        return self.queued and self.host_us > self.net_us


def take_pilot(timer: EventsTimer, target: Target) -> Pilot:
    """Look at the target through a timer that has been prepared for it."""
    batches: list[Batch] = []
    while not batches or (
        sum(len(batch.times_us) for batch in batches) < TRIALS and sum(batch.work_us for batch in batches) < ENOUGH_US
    ):
        batches.append(timer.batch(target, TRIALS))
    return Pilot(
        read_us=median(time for batch in batches for time in batch.times_us),
        floor_us=timer.floor_us,
        host_us=median(time for batch in batches for time in batch.host_us),
        queued=timer.queued,
        nothing=timer.at_floor(batches[-1]),
    )


def pilot_of(rig: Rig, cache: str, target: Target) -> Pilot:
    """Prepare events for the target and look at it through them."""
    timer = EventsTimer(rig, cache)
    timer.prepare(target)
    return take_pilot(timer, target)
