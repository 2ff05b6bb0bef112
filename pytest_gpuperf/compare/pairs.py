"""The ratio of two implementations that ran in turn, with its interval.

Both met the same clock, temperature and company in every round, so that their ratio within a round is free of what
drifts between rounds. Times are not adjusted to a clock: what one clock did to both has cancelled, and where one
implementation itself pulls the clock down (by the power it draws), that belongs to its time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_gpuperf.compare.numbers import bounded_log, mean, ratio_of, variance, without_outlier
from pytest_gpuperf.measure.summary import effective_trials, half_width, lag1_autocorrelation


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRatio:
    """A ratio of times and its 95 % interval: below 1, the first of the two is faster."""

    ratio: float
    low: float
    high: float
    rounds: int
    """Rounds in which both took part."""


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of values taken in order, and half the width of its 95 % interval; infinite for one value.

    Student's t on the effective number of values: neighbouring rounds may still have something in common. A lone
    outlier is drawn in to Tukey's outer fence.
    """
    sound = without_outlier(values)
    if len(sound) < 2:
        return mean(sound), math.inf
    effective = effective_trials(len(sound), lag1_autocorrelation(sound))
    return mean(sound), half_width(math.sqrt(variance(sound)), max(effective, 2.0))


def paired_ratio(log_times: Mapping[int, float], to: Mapping[int, float]) -> PairedRatio | None:
    """Return the ratio of two contenders' times from their log times by round; None where no round has both."""
    common = sorted(log_times.keys() & to.keys())
    if not common:
        return None
    middle, reach = mean_interval([bounded_log(log_times[number]) - bounded_log(to[number]) for number in common])
    low, high = (ratio_of(middle - reach), ratio_of(middle + reach)) if reach < math.inf else (0.0, math.inf)
    return PairedRatio(ratio=ratio_of(middle), low=low, high=high, rounds=len(common))
