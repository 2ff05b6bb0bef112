"""The host's time of ordinary calls, for timers whose trials are no such calls."""

from __future__ import annotations

import time
from statistics import median

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.timers.rig import Rig

EAGER_CALLS = 3


def eager_host_us(rig: Rig, target: Target) -> float:
    """Make some calls as the user would; return what one took the host until it returned, and leave the device idle."""
    times_us = []
    for _ in range(EAGER_CALLS):
        call = target.bind()
        with rig.current():
            start_ns = time.perf_counter_ns()
            call()
            times_us.append((time.perf_counter_ns() - start_ns) / 1e3)
    rig.synchronize()
    return median(times_us)
