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


def too_noisy(seen: Difference, visible: float | None, more: int | None, clock: str = "") -> str:
    """Tell the spread, the smallest slowdown that would have been seen, and what would resolve it.

    `clock` says how which clock changed. It is blamed, or the sessions are, where that matters more than the spread.
    """
    seen_part = ""
    if visible is not None and visible > math.log(HOPELESS_RATIO):
        seen_part = f": nothing short of {HOPELESS_RATIO} times as slow is visible"
    elif visible is not None:
        seen_part = f": the smallest slowdown visible is {percent(visible)}"
    of_runs = seen.standard_error() ** 2 - seen.clock - seen.sessions
    blamed, help_for_it = "", "time it more steadily or extend the baseline"
    if seen.clock > max(of_runs, seen.sessions):
        blamed = f", and adjusting for {clock} adds {fine_percent(math.sqrt(seen.clock))}"
        help_for_it = "compare at the same clock, or extend the baseline by a session at this one"
    elif seen.sessions > of_runs:
        blamed = f", and its sessions differ by more: {fine_percent(math.sqrt(seen.sessions))}"
        help_for_it = "extend the baseline by more sessions"
    return f"between-run spread {fine_percent(seen.spread)}{blamed}{seen_part}; {remedy(more, help_for_it)}"


def not_yet_certain(seen: Difference, more: int | None) -> str:
    """Tell a slowdown that too few runs have seen."""
    return f"looks {change(seen.estimate)}, not yet certain; {remedy(more)}"


def remedy(more: int | None, otherwise: str = "time it more steadily or extend the baseline") -> str:
    """Tell how many more runs would settle it, or what would help where runs do not."""
    if more is None:
        return f"forty more runs would not settle it: {otherwise}"
    return f"needs {runs(more, 'more ')}"


def runs(count: int, kind: str = "") -> str:
    """Return `1 run`, `4 more runs`."""
    return f"{count} {kind}run{'' if count == 1 else 's'}"


def clock_only(name: str, raw: float, baseline_ghz: float | None, new_ghz: float | None) -> str:
    """Tell a slowdown that is the clock's (of this name) and not the code's."""
    clocks = "" if baseline_ghz is None or new_ghz is None else f": {new_ghz:.2f} GHz instead of {baseline_ghz:.2f}"
    return f"{name}, not the code ({change(raw)} as measured, not at the same clock{clocks})"


def clock_change(name: str, baseline_ghz: float | None, new_ghz: float | None) -> str:
    """Return `the card's clock (1.98 → 1.73 GHz)`."""
    return name if baseline_ghz is None or new_ghz is None else f"{name} ({baseline_ghz:.2f} → {new_ghz:.2f} GHz)"
