"""The ratio of two implementations that ran in turn, with its interval.

Both met the same clock, temperature and company in every round, so that their ratio within a round is free of what
drifts between rounds. Times are not adjusted to a clock: what one clock did to both has cancelled, and where one
implementation itself pulls the clock down (by the power it draws), that belongs to its time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_gpuperf.compare.numbers import bounded_log, mean, median, ratio_of, variance, without_outlier
from pytest_gpuperf.measure.summary import effective_trials, half_width, lag1_autocorrelation

BLOCKS = 10
"""Enough for Student's t, and few enough for a block to outlast what disturbs neighbouring rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """A ratio of times and its 95 % interval: below 1, the first of the two is faster."""

    ratio: float
    low: float
    high: float
    rounds: int
    """Rounds in which both took part."""


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the centre of values taken in order, and half the width of its 95 % interval; infinite for one value.

    Many values are first reduced to the medians of `BLOCKS` blocks of neighbours, so that neither what they have in
    common with each other nor bursts of noise count as evidence (batch means: Conway 1963, Schmeiser 1982; on a busy
    CPU, medians halve the interval and miss less often, see `benchmarks/comparison_intervals.py`). Then Student's t on
    their effective number, with a lone outlier drawn in to Tukey's outer fence.
    """
    sound = without_outlier(_block_medians(values))
    if len(sound) < 2:
        return mean(sound), math.inf
    effective = effective_trials(len(sound), lag1_autocorrelation(sound))
    return mean(sound), half_width(math.sqrt(variance(sound)), max(effective, 2.0))


def _block_medians(values: Sequence[float]) -> Sequence[float]:
    """Return the medians of blocks of two neighbours or more; the values themselves where there are too few."""
    if len(values) < 2 * BLOCKS:
        return values
    bounds = [place * len(values) // BLOCKS for place in range(BLOCKS + 1)]
    return [median(values[start:end]) for start, end in pairwise(bounds)]


def paired_ratio(log_times: Mapping[int, float], to: Mapping[int, float]) -> PairedRatio | None:
    """Return the ratio of two contenders' times from their log times by round; None where no round has both."""
    common = sorted(log_times.keys() & to.keys())
    if not common:
        return None
    middle, reach = mean_interval([bounded_log(log_times[number]) - bounded_log(to[number]) for number in common])
    low, high = (ratio_of(middle - reach), ratio_of(middle + reach)) if reach < math.inf else (0.0, math.inf)
    return PairedRatio(ratio=ratio_of(middle), low=low, high=high, rounds=len(common))
