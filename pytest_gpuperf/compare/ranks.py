"""The exact one-sided Mann-Whitney test (Mann and Whitney 1947): a guard that no shape of noise can fool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

LARGEST_EXACT = 4000
"""Product of the sample sizes up to which the null distribution is counted; beyond, the normal approximation is exact
to far less than any level in use."""


def mann_whitney_p(larger: Sequence[float], smaller: Sequence[float]) -> float:
    """Return the p-value against "`larger` is not larger than `smaller`".

    Ties between the sides count against the alternative, which can only raise the p-value: the test stays valid for
    discrete values.
    """
    wins = sum(a > b for a in larger for b in smaller)
    pairs = len(larger) * len(smaller)
    if pairs > LARGEST_EXACT:
        return _normal_tail(wins, len(larger), len(smaller))
    return _null_tails(*sorted((len(larger), len(smaller))))[wins]


def smallest_p(first: int, second: int) -> float:
    """Return the smallest p-value that so many runs can reach: 1 / (m + n choose n)."""
    return 1 / math.comb(first + second, second)


@lru_cache(maxsize=256)
def _null_tails(first: int, second: int) -> tuple[float, ...]:
    """Return P(U >= u) for u = 0 ... first * second, every order of the runs being equally likely.

    The counts are the coefficients of the Gaussian binomial, prod (1 - q^(second + i)) / (1 - q^i).
    """
    size = first * second + 1
    counts = [1] + [0] * (size - 1)
    for i in range(1, first + 1):
        for u in range(size - 1, second + i - 1, -1):
            counts[u] -= counts[u - second - i]
        for u in range(i, size):
            counts[u] += counts[u - i]
    total = math.comb(first + second, first)
    tails, above = [0.0] * size, 0
    for u in range(size - 1, -1, -1):
        above += counts[u]
        tails[u] = above / total
    return tuple(tails)


def _normal_tail(wins: int, first: int, second: int) -> float:
    from scipy.special import ndtr

    pairs = first * second
    sd = math.sqrt(pairs * (first + second + 1) / 12)
    return float(ndtr((pairs / 2 - wins + 0.5) / sd))
