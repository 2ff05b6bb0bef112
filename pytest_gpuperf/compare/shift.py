"""The session's shared shift: what a whole suite moved by is no benchmark's doing.

A driver, a cooler day or another card of the same kind moves everything by a little. With twenty benchmarks the median
log ratio tells that shift from the benchmarks' own; it is taken out, and always told. Beyond what sessions usually
differ by it is a finding in itself, and the verdicts wait for an A/B of both revisions on this machine.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.moderation import Prior
from pytest_gpuperf.compare.numbers import mean, median, ratio_of, variance
from pytest_gpuperf.compare.reasons import change, percent
from pytest_gpuperf.compare.sessions import FEWEST_SESSIONS
from pytest_gpuperf.compare.values import adjusted_arms, run_values
from pytest_gpuperf.compare.verdict import Decision, Policy
from pytest_gpuperf.measure.samples import RunRecord

FEWEST_BENCHMARKS = 20
USUAL_SHIFT = 0.01
"""Log shift that is taken out without a question, whatever the history."""
LARGEST_SHARED = math.log(1.3)
"""No clock, driver or card of the same model moves a clock-adjusted suite by more: beyond it is the code."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One benchmark of a session, as `decide` takes it."""

    baseline: Sequence[RunRecord]
    runs: Sequence[RunRecord]
    policy: Policy


class Shift(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the suite moved by: the median log ratio over its benchmarks."""

    log_ratio: float
    standard_error: float
    benchmarks: int
    limit: float
    """Beyond it (in log time) the shift is a finding: 1 %, or three standard deviations of earlier sessions' shifts."""

    @property
    def told_from_zero(self) -> bool:
        """Whether it is more than the benchmarks' own scatter."""
        return abs(self.log_ratio) > 2 * self.standard_error

    @property
    def beyond(self) -> bool:
        """Whether sessions do not usually differ by so much."""
        return self.told_from_zero and abs(self.log_ratio) > self.limit

    @property
    def removed(self) -> float:
        """Return the log shift that is taken out of the new times."""
        return self.log_ratio if self.told_from_zero and abs(self.log_ratio) <= LARGEST_SHARED else 0.0

    @property
    def sentence(self) -> str:
        """Tell it in a line."""
        if not self.told_from_zero:
            return f"no shift shared by the suite ({self.benchmarks} benchmarks, within {percent(self.standard_error)})"
        if self.beyond:
            return f"everything is {change(self.log_ratio)}: clocks, driver, or a shared cause"
        return f"the suite as a whole is {change(self.log_ratio)}; taken out of every comparison"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Generic[Key]):
    """A session's decisions once its shift is known; None where there are too few benchmarks to tell one."""

    shift: Shift | None
    decisions: dict[Key, Decision]


def settle(comparisons: Mapping[Key, Comparison], prior: Prior | None) -> Settled[Key]:
    """Decide a whole session: estimate the shift that its benchmarks share, take it out, and judge what is left.

    A/B comparisons (`Policy.interleaved`) met the same machine on both sides and keep their shift.
    """
    shared = {key: c for key, c in comparisons.items() if c.baseline and c.runs and not c.policy.interleaved}
    shift = suite_shift([(c.baseline, c.runs) for c in shared.values()])
    decisions = {key: _decide(c, prior, shift if key in shared else None) for key, c in comparisons.items()}
    return Settled(shift=shift, decisions=decisions)


def suite_shift(suite: Sequence[tuple[Sequence[RunRecord], Sequence[RunRecord]]]) -> Shift | None:
    """Estimate the shift of (baseline, new runs) pairs; None with fewer than twenty.

    The standard error is the median's under normal scatter, from the median absolute deviation.
    """
    if len(suite) < FEWEST_BENCHMARKS:
        return None
    ratios = [_log_ratio(baseline, runs) for baseline, runs in suite]
    centre = median(ratios)
    scatter = 1.4826 * median([abs(ratio - centre) for ratio in ratios])
    history = _historical_sd([baseline for baseline, _ in suite])
    return Shift(
        log_ratio=centre,
        standard_error=math.sqrt(math.pi / 2 / len(ratios)) * scatter,
        benchmarks=len(ratios),
        limit=max(math.log1p(USUAL_SHIFT), 3 * history),
    )


def _decide(comparison: Comparison, prior: Prior | None, shift: Shift | None) -> Decision:
    baseline, runs, policy = comparison.baseline, comparison.runs, comparison.policy
    if shift is None or not shift.removed:
        return decide(baseline, runs, policy, prior)
    decision = decide(baseline, runs, policy, prior, shift=shift.removed)
    if not shift.beyond:
        return decision
    return decision if _stands_alone(comparison, prior, decision) else _withheld(decision, shift)


def _stands_alone(comparison: Comparison, prior: Prior | None, decision: Decision) -> bool:
    """Return whether the verdict needs no A/B: a change that is one with the shift and without, or an exact metric."""
    if decision.verdict not in ("regressed", "improved"):
        return decision.verdict == "inconclusive"
    if decision.metric != "time":
        return True
    as_measured = decide(comparison.baseline, comparison.runs, comparison.policy, prior)
    return as_measured.verdict == decision.verdict


def _withheld(decision: Decision, shift: Shift) -> Decision:
    reason = f"{shift.sentence}; compare both revisions on this machine (--gpuperf-against)"
    return msgspec.structs.replace(decision, verdict="inconclusive", reason=reason, shift_ratio=ratio_of(shift.removed))


def _log_ratio(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> float:
    arms = adjusted_arms(baseline, runs)
    return mean(arms.new) - mean(arms.baseline)


def _historical_sd(baselines: Sequence[Sequence[RunRecord]]) -> float:
    """Return the standard deviation of earlier sessions' shifts; 0 with fewer than three sessions."""
    shifts: dict[str, list[float]] = {}
    for baseline in baselines:
        for session, shift in _session_shifts(baseline).items():
            shifts.setdefault(session, []).append(shift)
    medians = [median(values) for values in shifts.values() if len(values) >= FEWEST_BENCHMARKS]
    return math.sqrt(variance(medians)) if len(medians) >= FEWEST_SESSIONS else 0.0


def _session_shifts(baseline: Sequence[RunRecord]) -> dict[str, float]:
    """Return how far each session's mean lies from the mean of all sessions' means."""
    values: dict[str, list[float]] = {}
    for run, value in zip(baseline, run_values(baseline), strict=True):
        values.setdefault(run.session, []).append(value)
    means = {session: mean(xs) for session, xs in values.items()}
    centre = mean(list(means.values()))
    return {session: m - centre for session, m in means.items()}
