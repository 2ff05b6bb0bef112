"""What ends a session: more runs where they are worth it, final verdicts, what is stored, and what is told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.report.accounting import Accounting
from pytest_gpuperf.report.json import session_json
from pytest_gpuperf.report.paragraphs import verdict_paragraph
from pytest_gpuperf.session.context import Context
from pytest_gpuperf.session.failing import failed_report
from pytest_gpuperf.session.findings import Finding
from pytest_gpuperf.session.ledger import Ledger, Selection
from pytest_gpuperf.session.rounds import Rounds
from pytest_gpuperf.session.selection import session_account, sort_unmeasured
from pytest_gpuperf.session.storing import Storing, session_info
from pytest_gpuperf.store.errors import StoreError
from pytest_gpuperf.store.schema import Entry, SessionRecord
from pytest_gpuperf.store.sessions import save as save_session


@dataclass(slots=True)
class Closed:
    """What is to be told of a session that has ended."""

    machine: Machine
    outcomes: list[Outcome]
    accounting: Accounting
    notes: list[str] = field(default_factory=list)


class Closing:
    """Ends a session in the process that tells of it."""

    def __init__(self, context: Context, ledger: Ledger, selection: Selection) -> None:
        self._context = context
        self._config = context.config
        self._settings = context.settings
        self._ledger = ledger
        self._selection = selection

    def close(self) -> Closed:
        """Take the last runs, decide, store; log a failed report for everything that no test could fail for."""
        notes: list[str] = []
        if self._settings.stored_name is not None:
            self._take_runs_to_store()
        elif self._settings.gate:
            notes += self._take_runs_worth_it()
        entries = dict(self._context.gate.entries)
        unmeasured = sort_unmeasured(entries, self._ledger.findings, self._ledger, self._selection, self._config)
        accounting = session_account(entries, list(self._ledger.findings), unmeasured)
        missing = [_missing(entries[key]) for key in unmeasured["missing"]]
        outcomes = [*self._in_collected_order(), *missing]
        self._fail_what_is_missing(missing)
        notes += self._store(outcomes, accounting)
        for outcome in outcomes:
            self._config.hook.pytest_gpuperf_benchmark_finished(config=self._config, outcome=outcome)
        return Closed(self._context.bench.machine, outcomes, accounting, notes)

    def _in_collected_order(self) -> list[Outcome]:
        # Suspects are reported last, but belong into the table where their test stands.
        place = {node_id: index for index, node_id in enumerate(self._selection.collected)}
        keys = sorted(self._ledger.findings, key=lambda key: place.get(self._ledger.node_ids[key], len(place)))
        return [self._ledger.findings[key].outcome for key in keys]

    def _take_runs_to_store(self) -> None:
        """Bring every benchmark that will be stored to the baseline's number of runs."""
        wanted = {key: f for key, f in self._ledger.findings.items() if self._may_be_stored(f) and not f.problem}
        lacking = {key: self._settings.runs - len(finding.outcome.runs) for key, finding in wanted.items()}
        # All in one batch, so that a stored run has kept the company that a session's own run keeps.
        self._take(wanted, max(lacking.values(), default=0), why="measuring the baseline", fail=True)

    def _may_be_stored(self, finding: Finding) -> bool:
        if not self._settings.gate:
            return True
        verdict = finding.outcome.decision.verdict
        extends = self._settings.extend_baseline is not None
        return verdict in ("new", "improved") or (extends and verdict == "unchanged") or finding.worth_more_runs

    def _take_runs_worth_it(self) -> list[str]:
        """Spend the stated time on benchmarks that are too noisy to tell by one run."""
        worth = {key: finding for key, finding in self._ledger.findings.items() if finding.worth_more_runs}
        if not worth or self._settings.confirm_time <= 0:
            return []
        rounds, seconds = self._settings.confirm_runs, self._settings.confirm_time
        until = time.monotonic() + seconds
        for done in range(rounds):
            if time.monotonic() > until:
                return [
                    f"{len(worth)} benchmarks that one run could not settle got {done} of {rounds} more runs "
                    f"within --gpuperf-confirm-time={seconds:g} s."
                ]
            self._take(worth, 1, why=f"settling what is unclear ({done + 1} of {rounds})", fail=False)
        return []

    def _take(self, wanted: dict[str, Finding], rounds: int, *, why: str, fail: bool) -> None:
        node_ids = list(dict.fromkeys(self._ledger.node_ids[key] for key in wanted))
        if not node_ids or rounds <= 0:
            return
        own_seconds = {node_id: self._ledger.durations_s.get(node_id, 0.0) for node_id in node_ids}
        taken = self._context.rounds.run(node_ids, rounds, why=why, own_seconds=own_seconds)
        for key in wanted:
            self._ledger.findings[key] = self._with_runs(self._ledger.findings[key], self._ledger.node_ids[key], taken)
        if fail:
            self._fail_what_broke(taken)

    def _with_runs(self, finding: Finding, node_id: str, taken: Rounds) -> Finding:
        outcome = finding.outcome
        events = [e for e in taken.measured.get(node_id, []) if e.benchmark == outcome.benchmark]
        problem = finding.problem or next(iter(taken.failures.get(node_id, [])), "")
        runs = (*outcome.runs, *(event.record for event in events))
        trials = (*outcome.trials, *(event.trials for event in events))
        decision = self._context.gate.decide(outcome.benchmark, outcome.identity, runs, finding.settings)
        return msgspec.structs.replace(
            finding,
            outcome=msgspec.structs.replace(outcome, runs=runs, trials=trials, decision=decision),
            problem=problem,
        )

    def _fail_what_broke(self, taken: Rounds) -> None:
        for node_id, reasons in taken.failures.items():
            self._log_failure(node_id, f"passed in this session, but not in a fresh process: {reasons[0]}")

    def _fail_what_is_missing(self, missing: Sequence[Outcome]) -> None:
        for outcome in missing:
            if self._context.fails(outcome):
                self._log_failure(outcome.benchmark.node_id, verdict_paragraph(outcome))

    def _log_failure(self, node_id: str, message: str) -> None:
        report = failed_report(node_id, message)
        self._config.hook.pytest_runtest_logreport(report=report)
        # The teardown's report is what makes the JUnit file close the test case.
        after = pytest.TestReport(
            nodeid=node_id, location=report.location, keywords={}, outcome="passed", longrepr=None, when="teardown"
        )
        self._config.hook.pytest_runtest_logreport(report=after)

    def _store(self, outcomes: Sequence[Outcome], accounting: Accounting) -> list[str]:
        record = SessionRecord(
            info=session_info(self._config, self._context.session_id, self._context.bench.machine),
            outcomes=tuple(outcome for outcome in outcomes if outcome.runs),
            accounting=accounting.counts(),
            settings=self._context.plain_settings(),
        )
        if self._settings.json is not None:
            _write_json(self._settings.json, session_json(record))
        notes = self._keep_record(record)
        if self._settings.stored_name is not None:
            storing = Storing(self._context, record.info)
            notes += storing.store(self._ledger.findings)
        return notes

    def _keep_record(self, record: SessionRecord) -> list[str]:
        if not record.outcomes:
            return []
        try:
            save_session(self._context.storage, record.info.machine.key, record)
        except StoreError as error:
            return [f"The session's record was not kept: {error}"]
        return []


def _missing(entry: Entry) -> Outcome:
    return Outcome(
        benchmark=entry.benchmark,
        identity=entry.identity,
        runs=(),
        decision=Decision(
            verdict="missing",
            reason="in the baseline and selected, but not run: renamed or removed? "
            "`gpuperf rename` or `gpuperf prune` brings the baseline up to date",
            baseline_runs=len(entry.runs),
        ),
        group=entry.group,
    )


def _write_json(path: str, content: str) -> None:
    try:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    except OSError as error:
        raise pytest.UsageError(f"--gpuperf-json={path}: cannot be written ({error.strerror})") from None
