"""The rank guard: an exact permutation test that no shape of noise can fool.

It is the one-sided Mann–Whitney test (Mann and Whitney 1947) with one change. A single disturbed run in the baseline,
slower than everything after it, costs Mann–Whitney as many pairs as there are new runs: ten runs against eight then
cannot reach 1e-3 whatever the new ones took, and one bad run blinds the gate until the baseline is made anew. So no
baseline run may cost more than half of its pairs. The null distribution of the capped count is counted exactly, every
order of the runs being equally likely; the test stays distribution-free, and its level is what it says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

LARGEST_EXACT = 10_000
"""Product of the sample sizes up to which the null distribution is counted; beyond it the normal approximation of the
uncapped count is used, which is close and a little conservative."""
REACH_SHARE = 0.95
REACH_DRAWS = 1000
REACH_BISECTIONS = 12


def rank_p(new: Sequence[float], baseline: Sequence[float]) -> float:
    """Return the p-value against "the new runs are not slower than the baseline's", with equal chances for every order.

    The statistic is sum over baseline runs of min(pairs lost, cap), a pair being lost where the new run is not slower.
    Ties are lost pairs, which can only raise the p-value: the test stays valid for discrete values.
    """
    lost = [sum(x <= b for x in new) for b in baseline]
    if len(new) * len(baseline) > LARGEST_EXACT:
        return _normal_tail(sum(lost), len(new), len(baseline))
    cap = most_lost(len(new))
    return _null_distribution(len(new), len(baseline))[sum(min(pairs, cap) for pairs in lost)]


def smallest_p(first: int, second: int) -> float:
    """Return the smallest p-value that so many runs can reach: 1 / (m + n choose n)."""
    return 1 / math.comb(first + second, second)


@lru_cache(maxsize=256)
def reach(new_count: int, baseline_count: int, alpha: float) -> float | None:
    """Return the shift, in standard deviations of a run, that passes this guard at `alpha` in 95 % of cases.

    Of normal runs: by simulation (seeded, so that it is always the same), or for large samples from the test's
    asymptotic efficiency of 3 / pi beside the t test (Hodges and Lehmann 1956). None where no shift would pass.
    """
    if smallest_p(new_count, baseline_count) > alpha:
        return None
    if new_count * baseline_count > LARGEST_EXACT // 4:
        return _asymptotic_reach(new_count, baseline_count, alpha)
    return _simulated_reach(new_count, baseline_count, alpha)


def _asymptotic_reach(new_count: int, baseline_count: int, alpha: float) -> float:
    from scipy.special import ndtri

    quantiles = -float(ndtri(alpha)) - float(ndtri(1 - REACH_SHARE))
    return quantiles * math.sqrt((1 / new_count + 1 / baseline_count) * math.pi / 3)


def _simulated_reach(new_count: int, baseline_count: int, alpha: float) -> float:
    """Bisect, for each of many draws of runs, the smallest shift that passes."""
    import numpy as np

    generator, cap = np.random.default_rng(0), most_lost(new_count)
    new = generator.normal(size=(REACH_DRAWS, new_count, 1))
    baseline = generator.normal(size=(REACH_DRAWS, 1, baseline_count))
    p = np.array(_null_distribution(new_count, baseline_count))
    low, high = np.zeros(REACH_DRAWS), np.full(REACH_DRAWS, 10.0)
    for _ in range(REACH_BISECTIONS):
        middle = (low + high) / 2
        lost = (new + middle[:, None, None] <= baseline).sum(axis=1)
        passes = p[np.minimum(lost, cap).sum(axis=1)] <= alpha
        low, high = np.where(passes, low, middle), np.where(passes, middle, high)
    return float(np.quantile(high, REACH_SHARE))


def most_lost(new_count: int) -> int:
    """Return how many pairs one baseline run may cost: half of them, rounded up."""
    return (new_count + 1) // 2


@lru_cache(maxsize=256)
def _null_distribution(new_count: int, baseline_count: int) -> tuple[float, ...]:
    """Return P(lost <= u) for u = 0, 1, ...

    An order of the runs is the non-decreasing list of how many new runs lie at or below each baseline run; `orders`
    counts such lists by their length and capped sum.
    """
    import numpy as np

    cap = most_lost(new_count)
    orders = np.zeros((baseline_count + 1, baseline_count * cap + 1))
    orders[0, 0] = 1.0
    for below in range(new_count + 1):
        cost = min(below, cap)
        for placed in range(baseline_count):
            orders[placed + 1, cost:] += orders[placed, : orders.shape[1] - cost]
    return tuple((orders[-1].cumsum() / math.comb(new_count + baseline_count, new_count)).tolist())


def _normal_tail(lost: int, first: int, second: int) -> float:
    from scipy.special import ndtr

    pairs = first * second
    sd = math.sqrt(pairs * (first + second + 1) / 12)
    return float(ndtr((lost - pairs / 2 + 0.5) / sd))
