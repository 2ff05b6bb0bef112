"""The verdicts of `pytest --gpuperf` on two stored sources, benchmark by benchmark."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from pytest_gpuperf.commands.places import matches
from pytest_gpuperf.commands.sources import Source
from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.identity import incomparability
from pytest_gpuperf.compare.moderation import Prior, suite_prior
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision, Policy
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.report.accounting import Accounting, account
from pytest_gpuperf.store.schema import Entry, SessionRecord


def compared(a: Source, b: Source, levels: Mapping[str, object], pattern: str = "") -> list[Outcome]:
    """The outcome of every benchmark of A or B that matches `pattern`; `levels` are fields of Policy to insist on."""
    before, now = _matching(a.entries, pattern), _matching(b.entries, pattern)
    prior = suite_prior([entry.runs for entry in a.entries.values()])
    gated = sum(_are_gated(before[key], now[key]) for key in before.keys() & now.keys())
    policies = _kept_policies(b)
    outcomes = []
    for key in [*now, *(key for key in before if key not in now)]:
        kept = msgspec.structs.asdict(policies.get(key, Policy()))
        policy = Policy(**{**kept, **levels, "gated": max(gated, 1)})
        decision = _decision(a, b, key, policy, prior)
        outcomes.append(_outcome(before.get(key), now.get(key), decision, policy))
    return outcomes


def _matching(entries: Mapping[str, Entry], pattern: str) -> dict[str, Entry]:
    return {key: entry for key, entry in entries.items() if matches(entry.benchmark, pattern)}


def _are_gated(before: Entry, now: Entry) -> bool:
    return incomparability(before.identity, now.identity) is None and len(before.runs) >= Policy().min_runs


def _kept_policies(source: Source) -> dict[str, Policy]:
    if not isinstance(source.content, SessionRecord):
        return {}
    return {o.benchmark.key: o.policy for o in source.content.outcomes if o.policy is not None}


def _decision(a: Source, b: Source, key: str, policy: Policy, prior: Prior | None) -> Decision:
    before, now = a.entries.get(key), b.entries.get(key)
    if before is None:
        return Decision(verdict="new", reason=f"not in {a.label}", new_runs=len(now.runs) if now else 0)
    if now is None:
        return Decision(verdict="missing", reason=f"in {a.label}, not in {b.label}", baseline_runs=len(before.runs))
    if a.model != b.model:
        return _incomparable(f"measured on {b.model}, the baseline on {a.model}", before, now)
    difference = incomparability(before.identity, now.identity)
    if difference is not None:
        return _incomparable(f"measured differently from the baseline ({difference})", before, now)
    return decide(before.runs, now.runs, policy, prior)


def _incomparable(reason: str, before: Entry, now: Entry) -> Decision:
    return Decision(verdict="incomparable", reason=reason, baseline_runs=len(before.runs), new_runs=len(now.runs))


def _outcome(before: Entry | None, now: Entry | None, decision: Decision, policy: Policy) -> Outcome:
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
    """Count the outcomes of `compared`."""
    keys = {outcome.benchmark.key: outcome.decision.verdict for outcome in outcomes}
    return account(
        {key for key, verdict in keys.items() if verdict != "new"},
        measured={key for key, verdict in keys.items() if verdict != "missing"},
        missing={key for key, verdict in keys.items() if verdict == "missing"},
    )
