"""What one measurement yields: raw trials, and the run record that summarises them."""

from __future__ import annotations

import msgspec


class Trials(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The raw samples of one run of one benchmark, in the order taken; all arrays have one item a trial."""

    times_us: tuple[float, ...]
    batch_indices: tuple[int, ...]
    """Which batch each trial belongs to, counted from 0."""
    clocks_ghz: tuple[float, ...] = ()
    """The SM clock metered just before each trial; empty where it was not metered."""
    host_us: tuple[float, ...] = ()
    """The host's time to dispatch each call; empty where it is the time itself."""


class DeviceState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The device around a run, as far as it can be read (NVML): worst or mean over the batches."""

    sm_clock_ghz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int = 0


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One benchmark in one process run: the unit of replication. Times are of one call, in microseconds."""

    session: str = ""
    """Id of the session that made this run (a baseline holds one `SessionInfo` for each)."""
    trials: int
    log_median: float
    """Natural logarithm of the median trial in microseconds."""
    mean_us: float
    sd_us: float
    min_us: float
    p5_us: float
    p95_us: float
    half_width_us: float
    """Of the 95 % interval of the mean, by Student's t on the effective number of trials."""
    lag1_autocorrelation: float = 0.0
    effective_trials: float = 0.0
    clock_ghz: float | None = None
    """Geometric mean of the trials' SM clocks; None where the clock was not metered."""
    batches: tuple[tuple[float, float], ...] = ()
    """(log median time, midmean of log clock in GHz) of each batch, from which the clock sensitivity is estimated.

    Empty where the run was one batch: its point is the run's own (`log_median`, the log of `clock_ghz`).
    """
    locations: tuple[float, ...] = ()
    """The value that is tested: the trials' interquartile mean of log time, at evenly spaced clock sensitivities.

    One item without a clock. With it, five: of log t + b log f at b = 0, 1/4, 1/2, 3/4 and 1, f in GHz, so that the
    adjusted value can be read off for any sensitivity without the trials. Empty in records that have only the median.
    """
    resolution_us: float = 0.0
    """The smallest step between two trials that differ: the timer's tick, where it has a coarse one."""
    host_us: float | None = None
    peak_memory_bytes: int | None = None
    kernels: tuple[str, ...] | None = None
    """Names of the kernels of one call, in launch order; None where not recorded."""
    fresh: bool = False
    """Whether a fresh process made it, and not the session's own."""
    device: DeviceState = DeviceState()
    notes: tuple[str, ...] = ()
