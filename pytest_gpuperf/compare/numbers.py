"""Small sums over short lists: faster without numpy, and safe for any finite input."""

from __future__ import annotations

import math
from collections.abc import Sequence

LARGEST_LOG = 100.0
"""Log times and log clocks beyond e^100 are nobody's; bounding them keeps every later figure finite."""

FEWEST_TO_JUDGE_ONE = 5
OUTER_FENCE = 3.0
"""Interquartile ranges beyond the quartiles."""
SMALLEST_RANGE = 1e-3
"""Interquartile range of log time taken for a fence where runs agree still better, as a coarse timer's do."""


def bounded_log(value: float) -> float:
    """Return a log value forced into the range in which squares and exponentials stay finite."""
    return min(LARGEST_LOG, max(-LARGEST_LOG, value))


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, exactly rounded, so that the order of runs cannot matter."""
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """Return the sample variance; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def without_outlier(values: Sequence[float]) -> list[float]:
    """Return the values with a lone outlier on either side drawn in to Tukey's outer fence (Tukey 1977).

    One disturbed run among five or more would otherwise make up the whole variance. Two on one side are no accident
    but a mode of the benchmark, and are left as they are.
    """
    if len(values) < FEWEST_TO_JUDGE_ONE:
        return list(values)
    ordered = sorted(values)
    low, high = outer_fences(ordered)
    least = low if ordered[1] >= low else -math.inf
    most = high if ordered[-2] <= high else math.inf
    return [min(most, max(least, v)) for v in values]


def outer_fences(ordered: Sequence[float]) -> tuple[float, float]:
    """Return Tukey's outer fences of sorted log times: what lies beyond is an outlier whatever their shape."""
    low, high = _quartile(ordered, 0.25), _quartile(ordered, 0.75)
    reach = OUTER_FENCE * max(high - low, SMALLEST_RANGE)
    return low - reach, high + reach


def _quartile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def ratio_of(log_ratio: float) -> float:
    """Return the ratio of a log ratio, bounded so that it is finite."""
    return math.exp(min(700.0, max(-700.0, log_ratio)))
