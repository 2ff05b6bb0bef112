"""Small sums over short lists: faster without numpy, and safe for any finite input."""

from __future__ import annotations

import math
from collections.abc import Sequence

LARGEST_LOG = 100.0
"""Log times and log clocks beyond e^100 are nobody's; bounding them keeps every later figure finite."""


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


def ratio_of(log_ratio: float) -> float:
    """Return the ratio of a log ratio, bounded so that it is finite."""
    return math.exp(min(700.0, max(-700.0, log_ratio)))
