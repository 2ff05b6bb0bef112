"""A callable ready to be timed, and what a timer returns for some calls of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.measure.plan import Setup


@dataclass(frozen=True, slots=True)
class Target:
    """The callable under test with its `setup`."""

    call: Callable[..., Any]
    setup: Setup | None = None

    def bind(self) -> Callable[[], Any]:
        """Return the next call to time; `setup` runs here, outside the timed region."""
        if self.setup is None:
            return self.call
        args, kwargs = self.setup()
        call = self.call
        return lambda: call(*args, **kwargs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Trials taken in one go, with nothing between them but what the timer needs; one item a trial."""

    times_us: tuple[float, ...]
    host_us: tuple[float, ...] = ()
    """The host's time to dispatch each call; empty where it is the time itself."""
    clocks_ghz: tuple[float, ...] = ()
    """The device's clock at each trial; empty where it was not metered."""
    work_us: float
    """How long the device was at work for the batch, its own preparations of each trial included."""
    unqueued: bool = False
    """Whether the device may have waited for the host within the trials, so that the host's time is in them."""
    notes: tuple[str, ...] = ()
    """What the result must carry along, such as a fall-back."""
