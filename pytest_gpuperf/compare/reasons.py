"""One sentence for each verdict, with its figures."""

from __future__ import annotations

import math

from pytest_gpuperf.compare.difference import Difference
from pytest_gpuperf.compare.numbers import ratio_of
from pytest_gpuperf.compare.verdict import Policy

HOPELESS_RATIO = 10


def percent(log_ratio: float) -> str:
    """Return a log ratio as a change in percent, with as many digits as it deserves: `2.3 %`, `140 %`."""
    value = abs(ratio_of(log_ratio) - 1) * 100
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %" if value < 1e4 else f"{value:.1g} %"


def fine_percent(share: float) -> str:
    """Return a share with two significant digits, or in whole percents: `0.34 %`, `250 %`."""
    value = share * 100
    return f"{value:.2g} %" if value < 99.5 else f"{value:.0f} %"


def change(log_ratio: float) -> str:
    """Return `2.3 % slower` or `1.0 % faster`."""
    return f"{percent(log_ratio)} {'slower' if log_ratio >= 0 else 'faster'}"


def changed(seen: Difference, baseline_count: int) -> str:
    """Tell a confirmed change: how much, how sure, over how many runs."""
    half = seen.bound(0.025)
    ends = sorted((seen.estimate - half, seen.estimate + half), key=abs)
    return (
        f"{change(seen.estimate)} (95 % interval {percent(ends[0])} to {percent(ends[1])}), "
        f"{runs(seen.new_count)} against {baseline_count}"
    )


def unchanged(seen: Difference) -> str:
    """Tell what was ruled out."""
    upper = seen.estimate + seen.bound(0.05)
    return f"at most {percent(upper)} slower" if upper >= 0 else f"at least {percent(upper)} faster"


def too_few(baseline_count: int, policy: Policy) -> str:
    """Tell how many runs the baseline lacks to compare with."""
    if policy.interleaved:
        return f"only {runs(baseline_count)} of each side: raise --gpuperf-runs"
    needed = max(1, policy.min_runs - baseline_count)
    return f"the baseline has only {runs(baseline_count)}: extend it by {needed} to compare with"


def too_noisy(seen: Difference, visible: float | None, more: int | None) -> str:
    """Tell the spread, the smallest slowdown that would have been seen, and what would resolve it."""
    seen_part = ""
    if visible is not None and visible > math.log(HOPELESS_RATIO):
        seen_part = f": nothing short of {HOPELESS_RATIO} times as slow is visible"
    elif visible is not None:
        seen_part = f": the smallest slowdown visible is {percent(visible)}"
    return f"between-run spread {fine_percent(seen.spread)}{seen_part}; {remedy(more)}"


def not_yet_certain(seen: Difference, more: int | None) -> str:
    """Tell a slowdown that too few runs have seen."""
    return f"looks {change(seen.estimate)}, not yet certain; {remedy(more)}"


def remedy(more: int | None) -> str:
    """Tell how many more runs would settle it."""
    if more is None:
        return "forty more runs would not settle it: time it more steadily or extend the baseline"
    return f"needs {runs(more, 'more ')}"


def runs(count: int, kind: str = "") -> str:
    """Return `1 run`, `4 more runs`."""
    return f"{count} {kind}run{'' if count == 1 else 's'}"


def clock_only(name: str, raw: float, baseline_ghz: float | None, new_ghz: float | None) -> str:
    """Tell a slowdown that is the clock's (of this name) and not the code's."""
    clocks = "" if baseline_ghz is None or new_ghz is None else f": {new_ghz:.2f} GHz instead of {baseline_ghz:.2f}"
    return f"{name}, not the code ({change(raw)} as measured, not at the same clock{clocks})"
