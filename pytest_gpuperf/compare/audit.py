"""The self-audit: how often would this gate have cried wolf, and what would it have found?

Runs are dealt at random into a baseline and a session, again and again, and every deal goes the way that the plugin's
own verdicts go: run records → prior → screen → decide. Unchanged code on both sides gives the false-alarm rate, a
known slowdown (`op_p2` against `op`) the power.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.moderation import Prior, suite_prior
from pytest_gpuperf.compare.numbers import mean, ratio_of, variance
from pytest_gpuperf.compare.recordings import RecordingError, Suite, base_of
from pytest_gpuperf.compare.screen import screen
from pytest_gpuperf.compare.values import adjusted_arms, run_values
from pytest_gpuperf.compare.verdict import Policy, Verdict
from pytest_gpuperf.measure.samples import RunRecord

DEFAULT_COMPARISONS = 400
DEFAULT_VISIBLE_COMPARISONS = 20
"""Enough for a 95 % point, and each costs as much as ten comparisons."""
LARGEST_SLOWDOWN = math.log(16)
BISECTIONS = 6


class AuditRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One benchmark's replay. Rates are shares of the comparisons."""

    op: str
    method: str
    baseline_runs: int
    confirm_runs: int
    comparisons: int
    false_alarm_rate: float | None = None
    """Of unchanged code: how often it was called regressed."""
    detection_rate: float | None = None
    """Of a known slowdown: how often it was called regressed."""
    advanced_rate: float
    """How often the screen asked for confirming runs."""
    true_ratio: float
    """1 for unchanged code; for a known slowdown, what all its runs say."""
    verdict_counts: dict[str, int]
    spread: float
    """Standard deviation between runs of the tested value, as a share of the time."""
    visible_ratio: float | None = None
    """The smallest slowdown found in 95 % of the deals; None where it was not sought, or nothing is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """How runs are dealt: `baseline_runs` to the baseline, one and `confirm_runs` to the session."""

    baseline_runs: int = 10
    confirm_runs: int = 7
    comparisons: int = DEFAULT_COMPARISONS
    seed: int = 0
    visible_comparisons: int = DEFAULT_VISIBLE_COMPARISONS
    """In how many of the comparisons to seek the smallest slowdown that would have been found."""

    @property
    def runs(self) -> int:
        """Return how many runs of a benchmark one deal takes."""
        return self.baseline_runs + 1 + self.confirm_runs

    def positions(self, available: int) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the positions of (baseline, session), drawn at random without replacement."""
        generator = random.Random(self.seed)
        for _ in range(self.comparisons):
            drawn = generator.sample(range(available), self.runs)
            yield drawn[: self.baseline_runs], drawn[self.baseline_runs :]


def audit_suite(suite: Suite, deal: Deal, policy: Policy | None = None, *, method: str = "") -> list[AuditRow]:
    """Replay a suite's runs: `op_pN` against `op`, everything else against itself."""
    bases = {op: base for op in suite if (base := base_of(op, suite)) is not None}
    replays = replay_suite(suite, deal, dict.fromkeys(suite, policy or Policy()), bases)
    return [audit_row(op, suite, replays[op], deal, method=method, base=bases.get(op)) for op in suite]


def replay_suite(
    suite: Suite, deal: Deal, policies: Mapping[str, Policy], bases: Mapping[str, str]
) -> dict[str, list[Replay]]:
    """Return each benchmark's replays, one a deal; `bases` names the benchmark that a known slowdown is one of.

    The same deal is used for all benchmarks, as one process runs them all; the prior is that of the dealt baselines.
    Raises RecordingError where there are too few runs.
    """
    benchmarks = [op for op in suite if op not in bases]
    counts = {"gated": len(benchmarks), "confirm_runs": deal.confirm_runs}
    held_to = {op: msgspec.structs.replace(policies[op], **counts) for op in suite}
    replays: dict[str, list[Replay]] = {op: [] for op in suite}
    for number, (baseline, session) in enumerate(deal.positions(_available(suite, deal))):
        stored = {op: [suite[op][i] for i in baseline] for op in {*benchmarks, *bases.values()}}
        prior = suite_prior(stored[op] for op in benchmarks)
        for op, runs in suite.items():
            case = Case(stored[bases.get(op, op)], [runs[i] for i in session], held_to[op], prior)
            replays[op].append(case.replay(seek=number < deal.visible_comparisons and op not in bases))
    return replays


@dataclass(frozen=True, slots=True)
class Replay:
    """What one comparison came to."""

    advanced: bool
    verdict: Verdict
    visible: float | None = None
    """The smallest log slowdown that would have been called regressed; infinite where none would."""


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison: the new runs are this session's own first, then those that a suspect would get."""

    baseline: Sequence[RunRecord]
    new: Sequence[RunRecord]
    policy: Policy
    prior: Prior | None

    def replay(self, *, seek: bool = False) -> Replay:
        """Take the plugin's way: screen the first new run, confirm with the rest where it is due, decide."""
        advanced, verdict = self.verdict(0.0)
        return Replay(advanced, verdict, self.smallest_found() if seek else None)

    def verdict(self, slowdown: float) -> tuple[bool, Verdict]:
        """Return whether the runs, slower by this log ratio, were confirmed, and their verdict."""
        advanced = screen(self.baseline, self.new[0], self.policy, self.prior, shift=-slowdown).advances
        new = self.new if advanced else self.new[:1]
        return advanced, decide(self.baseline, new, self.policy, self.prior, shift=-slowdown).verdict

    def smallest_found(self) -> float:
        """Return the smallest log slowdown that is called regressed; infinite where a sixteenfold time is not.

        A larger one than that always is, so it is found by doubling and bisection.
        """
        low, high = 0.0, 2 * math.log1p(self.policy.min_effect) or 0.01
        while self.verdict(high)[1] != "regressed":
            if high > LARGEST_SLOWDOWN:
                return math.inf
            low, high = high, 2 * high
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.verdict(middle)[1] == "regressed" else (middle, high)
        return high


def _available(suite: Suite, deal: Deal) -> int:
    """Return how many runs every benchmark has; RecordingError where a deal takes more."""
    for op, runs in suite.items():
        if len(runs) < deal.runs:
            raise RecordingError(
                f"{op} has {len(runs)} runs; {deal.baseline_runs} baseline runs, one and {deal.confirm_runs} confirming"
                f" runs take {deal.runs}: lower --baseline-runs or --confirm-runs, or record more"
            )
    return min(len(runs) for runs in suite.values())


def audit_row(
    op: str, suite: Suite, replays: Sequence[Replay], deal: Deal, *, method: str = "", base: str | None = None
) -> AuditRow:
    """Sum up the replays of one benchmark; of a known slowdown of `base`, where that is given."""
    counts = Counter(replay.verdict for replay in replays)
    regressed = counts["regressed"] / len(replays)
    return AuditRow(
        op=op,
        method=method,
        baseline_runs=deal.baseline_runs,
        confirm_runs=deal.confirm_runs,
        comparisons=len(replays),
        false_alarm_rate=regressed if base is None else None,
        detection_rate=None if base is None else regressed,
        advanced_rate=sum(replay.advanced for replay in replays) / len(replays),
        true_ratio=1.0 if base is None else _ratio(suite[base], suite[op]),
        verdict_counts=dict(sorted(counts.items())),
        spread=math.sqrt(variance(run_values(suite[op]))),
        visible_ratio=_found_in_most([replay.visible for replay in replays if replay.visible is not None]),
    )


def _ratio(baseline: Sequence[RunRecord], new: Sequence[RunRecord]) -> float:
    arms = adjusted_arms(baseline, new)
    return ratio_of(mean(arms.new) - mean(arms.baseline))


def _found_in_most(visible: Sequence[float]) -> float | None:
    """Return the ratio that is found in 95 % of the deals."""
    if not visible:
        return None
    log_ratio = sorted(visible)[math.ceil(0.95 * len(visible)) - 1]
    return ratio_of(log_ratio) if math.isfinite(log_ratio) else None
