"""The two tests that a verdict needs, in either direction, and scipy's own beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_gpuperf.compare.difference import Difference
from pytest_gpuperf.compare.numbers import mean, variance
from pytest_gpuperf.compare.ranks import rank_p
from pytest_gpuperf.compare.values import Arms
from pytest_gpuperf.compare.verdict import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Tests:
    """One-sided p-values of "changed by no more than `min_effect`"."""

    welch: float
    rank: float


def slower(seen: Difference, arms: Arms, policy: Policy) -> Tests:
    """Test H0: log ratio <= ln(1 + min_effect)."""
    delta = math.log1p(policy.min_effect)
    return Tests(welch=seen.p_above(delta), rank=rank_p([x - delta for x in arms.new], arms.baseline))


def faster(seen: Difference, arms: Arms, policy: Policy) -> Tests:
    """Test the mirror image, H0: log ratio >= -ln(1 + min_effect)."""
    delta = math.log1p(policy.min_effect)
    return Tests(welch=seen.p_below(-delta), rank=rank_p([-x - delta for x in arms.new], [-x for x in arms.baseline]))


def scipy_p(arms: Arms, policy: Policy, *, improved: bool = False) -> float | None:
    """Return scipy's Welch test on the same values, unmoderated: a second opinion, not the gate.

    It is `ttest_ind(new - ln(1 + min_effect), baseline, equal_var=False, alternative="greater")`.

    None where it is not defined: under two runs on a side, or no variance at all.
    """
    if min(len(arms.new), len(arms.baseline)) < 2 or variance(arms.new) + variance(arms.baseline) <= 0.0:
        return None
    from scipy.stats import ttest_ind_from_stats

    sign = -1 if improved else 1
    new, baseline = arms.new, arms.baseline
    p = ttest_ind_from_stats(
        sign * mean(new) - math.log1p(policy.min_effect),
        math.sqrt(variance(new)),
        len(new),
        sign * mean(baseline),
        math.sqrt(variance(baseline)),
        len(baseline),
        equal_var=False,
        alternative="greater",
    ).pvalue
    return float(p) if math.isfinite(p) else None
