"""The verdict: every new run of a benchmark against every run of its baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pytest_gpuperf.compare import reasons
from pytest_gpuperf.compare.difference import Difference, difference
from pytest_gpuperf.compare.evidence import Tests, faster, scipy_p, slower
from pytest_gpuperf.compare.exact import exact_findings, excess
from pytest_gpuperf.compare.moderation import Prior
from pytest_gpuperf.compare.numbers import mean, ratio_of
from pytest_gpuperf.compare.power import can_fail, more_runs, smallest_visible, welch_level
from pytest_gpuperf.compare.state import device_findings, mean_clock_ghz
from pytest_gpuperf.compare.values import Arms, adjusted_arms, raw_arms
from pytest_gpuperf.compare.verdict import Decision, Policy, Verdict
from pytest_gpuperf.measure.samples import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One comparison, with what was computed of it."""

    baseline: Sequence[RunRecord]
    runs: Sequence[RunRecord]
    policy: Policy
    arms: Arms
    seen: Difference | None
    raw_arms: Arms
    raw: Difference | None

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.baseline), len(self.runs)

    @property
    def clocks_ghz(self) -> tuple[float | None, float | None]:
        return mean_clock_ghz(self.baseline), mean_clock_ghz(self.runs)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A verdict on the times, why, and how many more runs would settle it."""

    verdict: Verdict
    reason: str
    more_runs: int | None = None


def decide(
    baseline: Sequence[RunRecord],
    runs: Sequence[RunRecord],
    policy: Policy,
    prior: Prior | None = None,
    *,
    shift: float = 0.0,
) -> Decision:
    """Judge the new runs (all of them, this session's own first) against the baseline.

    `shift` is the log shift that the whole suite shares; it is taken out of the new runs' times.
    """
    if not baseline or not runs:
        return _one_side_only(baseline, runs)
    case = _case(baseline, runs, policy, prior, shift)
    decision = _with_evidence(case, _judge(case), shift)
    beyond = excess(baseline, runs, policy)
    if beyond is None or decision.verdict == "regressed":
        return decision
    return msgspec.structs.replace(decision, verdict="regressed", reason=beyond.sentence, metric=beyond.metric)


def _one_side_only(baseline: Sequence[RunRecord], runs: Sequence[RunRecord]) -> Decision:
    if runs:
        return Decision(verdict="new", reason="not in the baseline", new_runs=len(runs))
    return Decision(verdict="missing", reason="in the baseline, but not measured", baseline_runs=len(baseline))


def _case(
    baseline: Sequence[RunRecord], runs: Sequence[RunRecord], policy: Policy, prior: Prior | None, shift: float
) -> _Case:
    arms = adjusted_arms(baseline, runs, shift, policy.clock_error)
    raw = arms if arms.sensitivity is None else raw_arms(baseline, runs, shift)
    seen = difference(arms, prior, interleaved=policy.interleaved)
    return _Case(
        baseline=baseline,
        runs=runs,
        policy=policy,
        arms=arms,
        seen=seen,
        raw_arms=raw,
        raw=seen if raw is arms else difference(raw, prior, interleaved=policy.interleaved),
    )


def _judge(case: _Case) -> _Judged:
    """Return the verdict on the times, and why."""
    baseline_count, policy = len(case.baseline), case.policy
    if baseline_count < policy.min_runs or case.seen is None:
        return _Judged("inconclusive", reasons.too_few(baseline_count, policy))
    return (
        _regressed(case, case.seen)
        or _improved(case, case.seen)
        or _clock_only(case)
        or _short_of_runs(case, case.seen)
        or _unchanged(case, case.seen)
        or _too_noisy(case, case.seen)
    )


def _regressed(case: _Case, seen: Difference) -> _Judged | None:
    if _certain(case, slower(seen, case.arms, case.policy)):
        return _Judged("regressed", reasons.changed(seen, len(case.baseline)))
    raw = case.raw
    if case.policy.interleaved and raw is not None and _certain(case, slower(raw, case.raw_arms, case.policy)):
        return _Judged("regressed", f"{reasons.changed(raw, len(case.baseline))}, as measured")
    return None


def _improved(case: _Case, seen: Difference) -> _Judged | None:
    if _certain(case, faster(seen, case.arms, case.policy)):
        return _Judged("improved", reasons.changed(seen, len(case.baseline)))
    return None


def _clock_only(case: _Case) -> _Judged | None:
    """Slower as measured, not at the same clock: no verdict on the code."""
    raw = case.raw
    if case.arms.sensitivity is None or raw is None or not _certain(case, slower(raw, case.raw_arms, case.policy)):
        return None
    return _Judged("inconclusive", reasons.clock_only(case.policy.clock_name, raw.estimate, *case.clocks_ghz))


def _short_of_runs(case: _Case, seen: Difference) -> _Judged | None:
    """Slower by the Welch test, with too few runs to gate: neither a failure nor all clear."""
    if can_fail(*case.counts, case.policy) or slower(seen, case.arms, case.policy).welch > welch_level(case.policy):
        return None
    more = more_runs(seen, len(case.baseline), case.policy)
    return _Judged("inconclusive", reasons.not_yet_certain(seen, more), more)


def _unchanged(case: _Case, seen: Difference) -> _Judged | None:
    if seen.estimate + seen.bound(0.05) < math.log1p(case.policy.detectable):
        return _Judged("unchanged", reasons.unchanged(seen))
    return None


def _too_noisy(case: _Case, seen: Difference) -> _Judged:
    visible = smallest_visible(seen, len(case.baseline), case.policy)
    more = more_runs(seen, len(case.baseline), case.policy)
    clock = reasons.clock_change(case.policy.clock_name, *case.clocks_ghz)
    return _Judged("inconclusive", reasons.too_noisy(seen, visible, more, clock), more)


def _certain(case: _Case, tests: Tests) -> bool:
    """Return whether both tests reject, with enough runs on either side."""
    enough = min(case.counts) >= case.policy.min_runs
    return enough and tests.welch <= welch_level(case.policy) and tests.rank <= case.policy.alpha


def _with_evidence(case: _Case, judged: _Judged, shift: float) -> Decision:
    provisional = not case.policy.interleaved and len({run.session for run in case.baseline}) < 2
    decision = Decision(
        verdict=judged.verdict,
        reason=judged.reason,
        more_runs=judged.more_runs,
        raw_ratio=ratio_of(mean(case.raw_arms.new) - mean(case.raw_arms.baseline)),
        clock_sensitivity=case.arms.sensitivity,
        baseline_runs=len(case.baseline),
        new_runs=len(case.runs),
        baseline_mean_us=_mean_us(case.baseline),
        new_mean_us=_mean_us(case.runs),
        baseline_clock_ghz=mean_clock_ghz(case.baseline),
        new_clock_ghz=mean_clock_ghz(case.runs),
        provisional=provisional,
        shift_ratio=ratio_of(shift) if shift else None,
        findings=(*exact_findings(case.baseline, case.runs), *device_findings(case.baseline, case.runs)),
    )
    ratio = ratio_of(mean(case.arms.new) - mean(case.arms.baseline))
    if case.seen is None:
        return msgspec.structs.replace(decision, ratio=ratio)
    return _with_tests(case, case.seen, decision)


def _mean_us(runs: Sequence[RunRecord]) -> float:
    """Return the mean of the runs' means; shares are summed so that no sum overflows."""
    return math.fsum(run.mean_us / len(runs) for run in runs)


def _with_tests(case: _Case, seen: Difference, decision: Decision) -> Decision:
    """Add the interval and the tests of the direction that the estimate points to."""
    half = seen.bound(0.025)
    tests = (slower if decision.verdict != "improved" else faster)(seen, case.arms, case.policy)
    visible = smallest_visible(seen, len(case.baseline), case.policy)
    return msgspec.structs.replace(
        decision,
        ratio=ratio_of(seen.estimate),
        ratio_low=ratio_of(seen.estimate - half),
        ratio_high=ratio_of(seen.estimate + half),
        p_welch=tests.welch,
        p_rank=tests.rank,
        p_scipy=scipy_p(case.arms, case.policy, improved=decision.verdict == "improved"),
        smallest_visible_ratio=None if visible is None else ratio_of(visible),
        spread=seen.spread,
    )
