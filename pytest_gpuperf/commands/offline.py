"""The verdicts of `pytest --gpuperf` on two stored sources, benchmark by benchmark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import msgspec

from pytest_gpuperf.commands.places import matches
from pytest_gpuperf.commands.sources import Source
from pytest_gpuperf.compare.identity import incomparability
from pytest_gpuperf.compare.moderation import suite_prior
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.shift import Comparison, Shift, settle
from pytest_gpuperf.compare.verdict import Decision, Policy
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.report.accounting import Accounting, account
from pytest_gpuperf.store.schema import Baseline, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a comparison came to: an outcome for each benchmark of either side, and the shift that all share."""

    outcomes: list[Outcome]
    shift: Shift | None


def compare_sources(a: Source, b: Source, levels: Mapping[str, object], pattern: str = "") -> Compared:
    """Judge every benchmark of A or B that matches `pattern`; `levels` are fields of Policy to insist on.

    The suite's prior and the session's shift come from all benchmarks of both sides, whatever `pattern` is.
    """
    before, now = a.entries, b.entries
    alike = _comparable(a, b)
    gated = sum(len(before[key].runs) >= Policy().min_runs for key in alike)
    policies = {key: _policy(kept, levels, gated) for key, kept in _kept_policies(b, now).items()}
    comparisons = {
        key: Comparison(baseline=before[key].runs, runs=now[key].runs, policy=policies[key]) for key in sorted(alike)
    }
    settled = settle(comparisons, suite_prior([entry.runs for entry in before.values()]))
    outcomes = []
    for key in [*now, *(key for key in before if key not in now)]:
        decision = settled.decisions.get(key) or _without_test(a, b, before.get(key), now.get(key))
        outcomes.append(_outcome(before.get(key), now.get(key), decision, policies.get(key)))
    return Compared(outcomes=[o for o in outcomes if matches(o.benchmark, pattern)], shift=settled.shift)


def _comparable(a: Source, b: Source) -> set[str]:
    if a.model != b.model:
        return set()
    return {key for key in a.entries.keys() & b.entries.keys() if _difference(a.entries[key], b.entries[key]) is None}


def _difference(before: Entry, now: Entry) -> str | None:
    return incomparability(before.identity, now.identity)


def _kept_policies(source: Source, entries: Mapping[str, Entry]) -> dict[str, Policy]:
    """The levels that each benchmark was held to when it was measured, where they were kept."""
    kept = {} if isinstance(source.content, Baseline) else {o.benchmark.key: o.policy for o in source.content.outcomes}
    return {key: kept.get(key) or Policy() for key in entries}


def _policy(kept: Policy, levels: Mapping[str, object], gated: int) -> Policy:
    # Stored results never ran in turn on one card, even if a session's own comparison did.
    return msgspec.structs.replace(kept, **levels, gated=max(gated, 1), interleaved=False)


def _without_test(a: Source, b: Source, before: Entry | None, now: Entry | None) -> Decision:
    if before is None:
        return Decision(verdict="new", reason=f"not in {a.label}", new_runs=len(now.runs) if now else 0)
    if now is None:
        return Decision(verdict="missing", reason=f"in {a.label}, not in {b.label}", baseline_runs=len(before.runs))
    why = f"on {b.model}, the baseline on {a.model}"
    if a.model == b.model:
        why = f"differently from the baseline ({_difference(before, now)})"
    return Decision(
        verdict="incomparable",
        reason=f"measured {why}",
        baseline_runs=len(before.runs),
        new_runs=len(now.runs),
    )


def _outcome(before: Entry | None, now: Entry | None, decision: Decision, policy: Policy | None) -> Outcome:
    entry = now or before
    assert entry is not None, "every key comes from one of the sides"
    runs: tuple[RunRecord, ...] = now.runs if now else ()
    return Outcome(
        benchmark=entry.benchmark,
        identity=entry.identity,
        runs=runs,
        decision=decision,
        policy=policy,
        group=entry.group,
    )


def accounting_of(outcomes: Collection[Outcome]) -> Accounting:
    """Count the outcomes of a comparison."""
    keys = {outcome.benchmark.key: outcome.decision.verdict for outcome in outcomes}
    return account(
        {key for key, verdict in keys.items() if verdict != "new"},
        measured={key for key, verdict in keys.items() if verdict != "missing"},
        missing={key for key, verdict in keys.items() if verdict == "missing"},
    )
