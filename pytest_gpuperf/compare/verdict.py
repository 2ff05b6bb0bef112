"""The verdicts, and the decision that carries one with its evidence."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Verdict = Literal["regressed", "improved", "unchanged", "inconclusive", "new", "missing", "incomparable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The levels that a decision is held to."""

    min_effect: float = 0.01
    """Slower by less than this share never fails."""
    detectable: float = 0.05
    """What must be ruled out to say `unchanged`."""
    alpha: float = 1e-3
    screen_alpha: float = 0.10
    session_alpha: float = 0.01
    """How often a session of unchanged code may fail, however many benchmarks it gates."""
    gated: int = 1
    """How many benchmarks this session gates; the Welch test's level is at most `session_alpha` over this."""
    min_runs: int = 5
    """Fewer runs on either side never gate."""
    confirm_runs: int = 7
    """How many fresh runs a suspect gets; decides what is worth confirming."""
    memory_tolerance: float = 0.01
    """Peak memory beyond the baseline's by more than this share (and 64 KiB) fails without a test."""
    kernel_tolerance: int = 0
    """So many kernels a call beyond the baseline's are allowed."""
    clock_name: str = "the card's clock"
    """What the runs' clocks are of, as it is told: on a CPU, its pace."""
    clock_error: float = 0.0
    """Least standard error of a clock sensitivity, where more has to be allowed for than its estimate says."""
    interleaved: bool = False
    """True for A/B: both sides ran in turn on one card, so that raw time counts and sessions do not."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A verdict with its evidence. Ratios are new time over baseline time: above 1 is slower."""

    verdict: Verdict
    reason: str
    """One sentence: why this verdict; for `inconclusive` also what would resolve it."""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    """95 % interval of the ratio."""
    p_welch: float | None = None
    p_rank: float | None = None
    p_scipy: float | None = None
    """scipy's own Welch test on the same values, beside ours."""
    raw_ratio: float | None = None
    """The ratio without clock adjustment."""
    clock_sensitivity: float | None = None
    baseline_runs: int = 0
    new_runs: int = 0
    baseline_mean_us: float | None = None
    new_mean_us: float | None = None
    baseline_clock_ghz: float | None = None
    new_clock_ghz: float | None = None
    smallest_visible_ratio: float | None = None
    """The smallest slowdown this comparison finds with 95 % power."""
    spread: float | None = None
    """Standard deviation between runs, as a share of the time, that the test used."""
    more_runs: int | None = None
    """For `inconclusive`: so many further runs would probably settle it; None where no number would."""
    metric: Literal["time", "peak memory", "kernels"] = "time"
    """What regressed."""
    shift_ratio: float | None = None
    """The suite's shared shift that was taken out of `ratio`; None where none was."""
    provisional: bool = False
    """True where the baseline comes from one session only."""
    findings: tuple[str, ...] = ()
    """What else changed: peak memory, kernels, driver, versions, clocks."""
