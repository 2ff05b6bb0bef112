"""The clock adjustment: what a run would have taken at the baseline's clock.

x = log t + b (log f - log f_ref), b the benchmark's clock sensitivity: 1 for a kernel that the core clock bounds,
0 for one that never feels it. A card that nobody may lock wanders by a quarter under load; most of the difference
between runs of unchanged code is that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from pytest_gpuperf.compare.numbers import bounded_log, mean, median, outer_fences, variance
from pytest_gpuperf.measure.samples import RunRecord

PRIOR_SENSITIVITY = 0.5
"""What is believed of a sensitivity before any data: anywhere in 0…1 (the uniform's mean and standard deviation)."""
PRIOR_STANDARD_ERROR = 1 / math.sqrt(12)
LARGEST_SENSITIVITY = 1.25
"""Above 1, because a clock that is metered before a trial may fall during it (1.15 was met, with an error of 0.02)."""
EXTRAPOLATION_ERROR = 0.05
"""The adjustment is a straight line through something that is not quite one: beyond the clocks that the baseline has
met, a sensitivity is not known better. Within them, what the line leaves out is in the spread between runs."""
SMALLEST_MOMENT = 1e-10
"""Mean square of log clock below which a clock did not move (0.001 %)."""

Points = Sequence[tuple[float, float]]
"""(log time, log clock in GHz) of each batch of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockModel:
    """A benchmark's clock sensitivity with its standard error, and the baseline's log clock: its mean over runs, and
    their standard deviation."""

    sensitivity: float
    standard_error: float
    reference_log_ghz: float
    reach_log_ghz: float

    def variance_at(self, log_ghz: float, least_error: float = 0.0) -> float:
        """Return the adjustment's variance at a mean log clock; `least_error` is the sensitivity's least error."""
        moved = log_ghz - self.reference_log_ghz
        beyond = max(0.0, abs(moved) - self.reach_log_ghz)
        return (max(self.standard_error, least_error) * moved) ** 2 + (EXTRAPOLATION_ERROR * beyond) ** 2


def clock_points(run: RunRecord) -> Points:
    """Return the points of a run's batches, or of the run where batches are not kept; empty without a clock."""
    if run.batches:
        return [(bounded_log(time), bounded_log(clock)) for time, clock in run.batches]
    if run.clock_ghz is None or run.clock_ghz <= 0:
        return []
    return [(bounded_log(run.log_median), bounded_log(math.log(run.clock_ghz)))]


def clock_model(baseline: Sequence[Points]) -> ClockModel | None:
    """Estimate the sensitivity from the points of the baseline's runs; None where a clock was not metered.

    The least-squares slope over undisturbed batches, with a standard error that lets the batches of one run share
    their errors (Tukey's jackknife over runs; Efron and Stein 1981), is weighed against what is known of any
    sensitivity (between 0 and 1) by their precisions. A baseline whose clock never moved therefore says "about a half,
    give or take 0.29", and not "none": a later clock step then widens the interval instead of turning into a verdict.
    """
    if not baseline or not all(baseline):
        return None
    slope, error = _jackknifed_slope(_undisturbed(baseline))
    sensitivity, standard_error = _weigh(-slope, error)
    clocks = [mean_log_clock(points) for points in baseline]
    return ClockModel(
        sensitivity=_possible(sensitivity),
        standard_error=standard_error,
        reference_log_ghz=mean(clocks),
        reach_log_ghz=math.sqrt(variance(clocks)),
    )


def adjusted(run: RunRecord, model: ClockModel) -> float:
    """Return a run's log time at the reference clock.

    Every trial was adjusted by its own clock before the run's interquartile mean was taken: within one run the clock
    may step between two levels, and the median time then belongs to one of them, the mean clock to neither. The record
    keeps that value for a few sensitivities; it is read off between them. Without it, the run's mean clock must do.
    """
    b, reference = model.sensitivity, model.reference_log_ghz
    if len(run.locations) < 2:
        return bounded_log(raw(run) + b * (mean_log_clock(clock_points(run)) - reference))
    position = b * (len(run.locations) - 1)
    below = min(int(position), len(run.locations) - 2)
    low, high = bounded_log(run.locations[below]), bounded_log(run.locations[below + 1])
    return bounded_log(low + (position - below) * (high - low) - b * reference)


def raw(run: RunRecord) -> float:
    """Return a run's log time as measured."""
    return bounded_log(run.locations[0] if run.locations else run.log_median)


def mean_log_clock(points: Points) -> float:
    """Return a run's mean log clock."""
    return mean([clock for _, clock in points])


def _possible(sensitivity: float) -> float:
    return min(LARGEST_SENSITIVITY, max(0.0, sensitivity))


def _undisturbed(runs: Sequence[Points]) -> list[Points]:
    """Return the runs without batches that lie far from the others at their clock, as a disturbed run's do.

    Far from a first, resistant line: the median of the slopes between runs, weighted by how far their clocks are apart
    (Theil 1950, Sen 1968, with the weights of Jaeckel 1972), clipped to what a sensitivity can be.
    """
    sensitivity = _possible(-_resistant_slope(runs))
    residuals = sorted(time + sensitivity * clock for points in runs for time, clock in points)
    low, high = outer_fences(residuals)
    return [[(t, f) for t, f in points if low <= t + sensitivity * f <= high] for points in runs]


def _resistant_slope(runs: Sequence[Points]) -> float:
    centres = [(median([t for t, _ in points]), mean_log_clock(points)) for points in runs]
    pairs = [(abs(f - g), t - u, f - g) for (t, f), (u, g) in combinations(centres, 2) if f != g]
    slopes = sorted((rise / step, weight) for weight, rise, step in pairs)
    half, passed = math.fsum(weight for _, weight in slopes) / 2, 0.0
    for slope, weight in slopes:
        passed += weight
        if passed >= half:
            return slope
    return -PRIOR_SENSITIVITY


def _jackknifed_slope(runs: Sequence[Points]) -> tuple[float, float]:
    """Return the slope of log time on log clock and its standard error (infinite where it cannot be told).

    The error is the jackknife's over whole runs: sqrt((n - 1) / n sum (slope without run i - their mean)^2).
    """
    moments = [_moments(points) for points in runs if points]
    total = [math.fsum(column) for column in zip(*moments, strict=True)]
    without = [_slope([t - m for t, m in zip(total, run, strict=True)]) for run in moments]
    slope, known = _slope(total), [s for s in without if s is not None]
    if slope is None or len(known) < max(2, len(moments)):
        return 0.0, math.inf
    return slope, math.sqrt(variance(known) * (len(known) - 1) ** 2 / len(known))


def _moments(points: Points) -> tuple[float, ...]:
    """Return the count and the sums of f, t, f f and f t, from which slopes over any set of runs are made."""
    clocks, times = [f for _, f in points], [t for t, _ in points]
    products = math.fsum(f * t for t, f in points)
    return (float(len(points)), math.fsum(clocks), math.fsum(times), math.fsum(f * f for f in clocks), products)


def _slope(moments: Sequence[float]) -> float | None:
    count, clocks, times, squares, products = moments
    if count < 3:
        return None
    moment = squares - clocks * clocks / count
    return (products - clocks * times / count) / moment if moment > SMALLEST_MOMENT * count else None


def _weigh(estimate: float, error: float) -> tuple[float, float]:
    """Combine an estimate with the prior by their precisions (the normal-normal posterior)."""
    if error <= 0.0:
        return estimate, 0.0
    precision, prior_precision = 1 / error**2, 1 / PRIOR_STANDARD_ERROR**2
    total = precision + prior_precision
    return (precision * estimate + prior_precision * PRIOR_SENSITIVITY) / total, 1 / math.sqrt(total)
