"""The CPU's stand-in for a clock: how fast a fixed piece of Python runs beside each trial.

A shared CPU runs the same code up to half slower for seconds at a time (frequency, the other hardware thread, the
hypervisor). A loop of fixed work feels most of that too: `benchmarks/cpu_pace.py` has what is left of the spread
between runs when times are adjusted by it.
"""

from __future__ import annotations

import sys
import time

PACED = "paced"
"""In a timer's description: its clock is a pace."""
ITERATIONS = 250
"""About 25 us: long against the host clock's step, short against a trial."""
NOMINAL_CYCLES = 230 * ITERATIONS
"""Chosen so that a 2.3 GHz server core under CPython 3.11 reads about 2.3: a pace in GHz, not the hardware's clock."""


def pace_name() -> str:
    """Name what the pace is set by: another interpreter runs the loop at another speed, and paces do not compare."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    return f"{PACED} by {sys.implementation.name} {version}"


def pace_ghz() -> float:
    """Run the loop once and return its pace."""
    start_ns = time.perf_counter_ns()
    state = 1
    for _ in range(ITERATIONS):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    return NOMINAL_CYCLES / (time.perf_counter_ns() - start_ns)
