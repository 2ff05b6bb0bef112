"""What a comparison can see, and how many more runs would settle it."""

from __future__ import annotations

import math

from pytest_gpuperf.compare.difference import Difference
from pytest_gpuperf.compare.ranks import reach, smallest_p
from pytest_gpuperf.compare.verdict import Policy

MOST_MORE_RUNS = 40
MISS_RATE = 0.05


def welch_level(policy: Policy) -> float:
    """Return the level of the Welch test: alpha, or the session's level shared by all gated benchmarks (Bonferroni)."""
    return min(policy.alpha, policy.session_alpha / max(1, policy.gated))


def can_fail(baseline_count: int, new_count: int, policy: Policy) -> bool:
    """Return whether so many runs can give `regressed` at all: enough a side, and the rank test can reach alpha."""
    enough = min(baseline_count, new_count) >= policy.min_runs
    return enough and smallest_p(baseline_count, new_count) <= policy.alpha


def smallest_visible(seen: Difference, baseline_count: int, policy: Policy) -> float | None:
    """Return the log ratio found with 95 % power, from screen to verdict; None where nothing can be.

    The widest of what the Welch test, the rank guard and the screen need. The noncentral t is replaced by its usual
    shifted-t approximation, t_(1 - level) + t_(0.95) standard errors.
    """
    count = max(seen.new_count, 1 + policy.confirm_runs)
    rank_reach = reach(count, baseline_count, policy.alpha)
    if rank_reach is None or not can_fail(baseline_count, count, policy):
        return None
    certain = seen.critical(MISS_RATE)
    welch = (seen.critical(welch_level(policy)) + certain) * seen.standard_error(count)
    confirmed = math.log1p(policy.min_effect) + max(welch, rank_reach * seen.spread)
    if policy.interleaved:
        return confirmed
    return max(confirmed, (seen.critical(policy.screen_alpha) + certain) * seen.standard_error(1))


def settles(seen: Difference, new_count: int, baseline_count: int, policy: Policy) -> bool:
    """Return whether `new_count` new runs would give a verdict, were the true difference the one estimated."""
    error = seen.standard_error(new_count)
    if seen.estimate + seen.critical(0.05) * error < math.log1p(policy.detectable):
        return True
    needed = seen.critical(welch_level(policy)) * error
    significant = abs(seen.estimate) - needed >= math.log1p(policy.min_effect)
    return significant and can_fail(baseline_count, new_count, policy)


def more_runs(seen: Difference, baseline_count: int, policy: Policy) -> int | None:
    """Return the fewest further runs that would probably settle the comparison; None where forty would not."""
    counts = range(1, MOST_MORE_RUNS + 1)
    return next((k for k in counts if settles(seen, seen.new_count + k, baseline_count, policy)), None)
