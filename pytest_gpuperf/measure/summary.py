"""From raw trials to the run record: one value a run, and what people are shown beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_gpuperf.measure.samples import DeviceState, RunRecord, Trials

LONGEST_TRIAL_US = 1e12
LARGEST_AUTOCORRELATION = 0.99
FINE_TICK = 1e-4
LOG_DIGITS = 9
"""Of stored logarithms: a billionth of the time."""
SENSITIVITY_NODES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class _Sound:
    """The trials that can be used: positive, finite times, with their batch and clock.

    Where most trials have a positive, finite clock, those without are left out; else all are taken as not metered.
    """

    times_us: list[float]
    batches: list[int]
    clocks_ghz: list[float]


def summarise(
    trials: Trials,
    *,
    session: str = "",
    host_us: float | None = None,
    peak_memory_bytes: int | None = None,
    device: DeviceState | None = None,
    kernels: tuple[str, ...] | None = None,
    notes: tuple[str, ...] = (),
) -> RunRecord:
    """Summarise one run's trials.

    Times that are not positive and finite are left out and noted, and so are those without a clock where most have
    one; `ValueError` where none is left.
    `host_us` defaults to the median of the trials' own host times.
    """
    sound = _sound_trials(trials)
    times = sound.times_us
    ordered = sorted(times)
    mean, sd = mean_and_sd(times)
    autocorrelation = lag1_autocorrelation(times)
    effective = effective_trials(len(times), autocorrelation)
    left_out = len(trials.times_us) - len(times)
    lacked = "time and clock" if sound.clocks_ghz else "time"
    return RunRecord(
        session=session,
        trials=len(times),
        log_median=math.log(quantile(ordered, 0.5)),
        mean_us=mean,
        sd_us=sd,
        min_us=ordered[0],
        p5_us=quantile(ordered, 0.05),
        p95_us=quantile(ordered, 0.95),
        half_width_us=half_width(sd, effective),
        lag1_autocorrelation=autocorrelation,
        effective_trials=effective,
        clock_ghz=_geometric_mean(sound.clocks_ghz) if sound.clocks_ghz else None,
        batches=_batch_points(sound) if sound.clocks_ghz else (),
        locations=_locations(sound),
        resolution_us=resolution(ordered),
        host_us=_median_or_none(trials.host_us) if host_us is None else host_us,
        peak_memory_bytes=peak_memory_bytes,
        kernels=kernels,
        device=DeviceState() if device is None else device,
        notes=(*notes, f"trials left out, as they lack a positive, finite {lacked}: {left_out}") if left_out else notes,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values by linear interpolation (Hyndman and Fan 1996, type 7)."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half of the values (the midmean, Tukey 1977: a quarter trimmed from either end).

    A quarter of the trials on either side may be spikes of any size; yet it scatters up to a tenth less between runs
    than the median does, and neither jumps by a whole tick of the timer nor from one mode to the other.
    """
    ordered = sorted(values)
    cut = len(ordered) // 4
    middle = ordered[cut : len(ordered) - cut]
    return math.fsum(middle) / len(middle)


def mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the sample standard deviation (0 for a single value)."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def lag1_autocorrelation(values: Sequence[float]) -> float:
    """Return the lag-1 sample autocorrelation (Box and Jenkins 1976, 2.1.6); 0 where nothing varies."""
    mean = math.fsum(values) / len(values)
    deviations = [v - mean for v in values]
    total = math.fsum(d * d for d in deviations)
    if total <= 0.0:
        return 0.0
    lagged = math.fsum(a * b for a, b in pairwise(deviations))
    return max(-1.0, min(1.0, lagged / total))


def effective_trials(count: int, autocorrelation: float) -> float:
    """Return how many independent trials an AR(1) series of `count` is worth: n (1 - rho) / (1 + rho).

    Bayley and Hammersley 1946. A negative correlation is not trusted to make trials worth more than they are.
    """
    rho = max(0.0, min(LARGEST_AUTOCORRELATION, autocorrelation))
    return max(1.0, count * (1.0 - rho) / (1.0 + rho))


def half_width(sd: float, effective: float) -> float:
    """Return the half-width of the mean's 95 % interval, by Student's t on the effective number of trials."""
    from scipy.special import stdtrit

    return float(stdtrit(max(effective - 1.0, 1.0), 0.975)) * sd / math.sqrt(effective)


def resolution(ordered: Sequence[float]) -> float:
    """Return the smallest step between distinct sorted times: a coarse timer's tick, 0 where it is a fine one.

    Steps under 1e-6 of the value are rounding of the number, not of the timer; a tick under `FINE_TICK` of the value
    is no more than any two runs differ by.
    """
    steps = [b - a for a, b in pairwise(ordered) if b - a > 1e-6 * b]
    tick = min(steps, default=0.0)
    return tick if steps and tick > FINE_TICK * ordered[0] else 0.0


def _sound_trials(trials: Trials) -> _Sound:
    keep = [i for i, time in enumerate(trials.times_us) if 0.0 < time <= LONGEST_TRIAL_US]
    if not keep:
        raise ValueError("no trial has a positive, finite time: there is nothing to summarise")
    clocks = trials.clocks_ghz if len(trials.clocks_ghz) == len(trials.times_us) else ()
    metered = [i for i in keep if clocks and 0.0 < clocks[i] < math.inf]
    if 2 * len(metered) <= len(keep):
        clocks, metered = (), keep
    indices = trials.batch_indices if len(trials.batch_indices) == len(trials.times_us) else [0] * len(trials.times_us)
    return _Sound(
        times_us=[trials.times_us[i] for i in metered],
        batches=[indices[i] for i in metered],
        clocks_ghz=[clocks[i] for i in metered] if clocks else [],
    )


def _locations(sound: _Sound) -> tuple[float, ...]:
    """Return the values that `RunRecord.locations` describes."""
    logs = [math.log(time) for time in sound.times_us]
    if not sound.clocks_ghz:
        return (round(interquartile_mean(logs), LOG_DIGITS),)
    clocks = [math.log(clock) for clock in sound.clocks_ghz]
    adjusted = ([t + b * f for t, f in zip(logs, clocks, strict=True)] for b in SENSITIVITY_NODES)
    return tuple(round(interquartile_mean(values), LOG_DIGITS) for values in adjusted)


def _batch_points(sound: _Sound) -> tuple[tuple[float, float], ...]:
    """Return (log median time, interquartile mean of the log clock) of each batch, in the order taken.

    Neither follows a few readings that are far off. Empty for a single batch: its point is the run's own, and a
    thousand benchmarks would store it twice.
    """
    grouped: dict[int, tuple[list[float], list[float]]] = {}
    for batch, time, clock in zip(sound.batches, sound.times_us, sound.clocks_ghz, strict=True):
        times, clocks = grouped.setdefault(batch, ([], []))
        times.append(time)
        clocks.append(clock)
    if len(grouped) == 1:
        return ()
    return tuple(
        (math.log(quantile(sorted(times), 0.5)), interquartile_mean([math.log(clock) for clock in clocks]))
        for times, clocks in grouped.values()
    )


def _geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values]
    return math.exp(math.fsum(logs) / len(logs))


def _median_or_none(values: Sequence[float]) -> float | None:
    return quantile(sorted(values), 0.5) if values else None
