"""What ends a session: its last runs, final verdicts, what is stored, and what is told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.report.accounting import Accounting
from pytest_gpuperf.report.json import session_json
from pytest_gpuperf.report.paragraphs import verdict_paragraph
from pytest_gpuperf.session.against import gate_before_comparing
from pytest_gpuperf.session.context import Context, json_errors
from pytest_gpuperf.session.failing import failed_report, failure_message
from pytest_gpuperf.session.findings import Finding
from pytest_gpuperf.session.last_runs import LastRuns
from pytest_gpuperf.session.ledger import Ledger, Selection
from pytest_gpuperf.session.selection import session_account, sort_unmeasured
from pytest_gpuperf.session.storing import Storing, session_info
from pytest_gpuperf.session.testing import Held
from pytest_gpuperf.store.errors import StoreError
from pytest_gpuperf.store.files import write_text_whole
from pytest_gpuperf.store.schema import Entry, SessionRecord
from pytest_gpuperf.store.sessions import save as save_session

MISSING_REMEDY = "Missing ones renamed or removed? 'gpuperf rename' or 'gpuperf prune' brings the baseline up to date."


@dataclass(frozen=True, slots=True)
class Closed:
    """What is to be told of a session that has ended."""

    machine: Machine
    outcomes: list[Outcome]
    accounting: Accounting
    notes: list[str]
    errors: list[str]
    """What could not be written: the session ends in a usage error."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What the baseline has and this session has not, with the sum over everything."""

    outcomes: list[Outcome]
    accounting: Accounting


class Closing:
    """Ends a session in the process that tells of it."""

    def __init__(self, context: Context, ledger: Ledger, selection: Selection) -> None:
        self._context = context
        self._config = context.config
        self._settings = context.settings
        self._ledger = ledger
        self._selection = selection
        self._notes: list[str] = []
        self._errors: list[str] = []

    @property
    def nothing_ran(self) -> bool:
        """Whether the session ended before its first test did."""
        return not self._ledger.fates

    def close(self, held: Sequence[Held], *, stopped: bool) -> Closed:
        """Take the last runs, decide on all benchmarks together, report the tests that waited, and store.

        Whatever fails by its final verdict after its test was reported is reported as a failure of its own. A session
        that was `stopped` (by -x or a plugin) is told as far as it got; it takes no more runs and stores nothing.
        """
        for test in held:
            self._ledger.expect(test.node_id, test.findings, test.seconds)
        if not stopped:
            self._notes += LastRuns(self._context, self._ledger).take()
        elif self._settings.against is not None:
            self._context.gate = gate_before_comparing(self._context, self._ledger.findings)
        self._tell_hazards()
        self._decide()
        self._report(held)
        missing = self._missing(stopped=stopped)
        outcomes = [*self._in_collected_order(), *missing.outcomes]
        if self._settings.profile is not None:
            self._notes.append(f"Profiles (tables and traces) are in {self._settings.profile}.")
        self._keep(outcomes, missing.accounting, stopped=stopped)
        for outcome in outcomes:
            self._config.hook.pytest_gpuperf_benchmark_finished(config=self._config, outcome=outcome)
        return Closed(self._context.bench.machine, outcomes, missing.accounting, self._notes, self._errors)

    def _tell_hazards(self) -> None:
        outcomes = [finding.outcome for finding in self._ledger.findings.values()]
        met = dict.fromkeys(hazard for outcome in outcomes for hazard in outcome.hazards)
        if met:
            self._notes.append(
                f"Measured while {' and '.join(met)}. Verdicts on such times are doubtful; they are stored with "
                "--gpuperf-force only."
            )

    def _decide(self) -> None:
        decisions, shift = self._context.gate.decide_all(self._ledger.findings)
        for key, decision in decisions.items():
            self._ledger.findings[key] = self._ledger.findings[key].deciding(decision)
        if shift is not None:
            self._notes.append(f"Session shift: {shift.sentence}.")

    def _report(self, held: Sequence[Held]) -> None:
        final = self._ledger.findings
        for test in held:
            test.log([final[finding.outcome.benchmark.key] for finding in test.findings], self._context.fails)
        by_test: dict[str, list[Finding]] = {}
        for key, finding in final.items():
            by_test.setdefault(self._ledger.node_ids[key], []).append(finding)
        for node_id, findings in by_test.items():
            message = failure_message(node_id, findings, self._context.fails)
            if message and self._ledger.fates.get(node_id) == "passed":
                self._log_failure(node_id, message)

    def _missing(self, *, stopped: bool) -> Missing:
        entries = dict(self._context.gate.entries)
        unmeasured = sort_unmeasured(entries, self._ledger.findings, self._ledger, self._selection, self._config)
        accounting = session_account(entries, list(self._ledger.findings), unmeasured)
        outcomes = [_missing(entries[key], stopped=stopped) for key in unmeasured["missing"]]
        if outcomes and not stopped:
            self._notes.append(MISSING_REMEDY)
            self._fail_what_is_missing(outcomes)
        return Missing(outcomes, accounting)

    def _in_collected_order(self) -> list[Outcome]:
        # Suspects are reported last, but belong into the table where their test stands.
        place = {node_id: index for index, node_id in enumerate(self._selection.collected)}
        keys = sorted(self._ledger.findings, key=lambda key: place.get(self._ledger.node_ids[key], len(place)))
        return [self._ledger.findings[key].outcome for key in keys]

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

    def _keep(self, outcomes: Sequence[Outcome], accounting: Accounting, *, stopped: bool) -> None:
        record = SessionRecord(
            info=session_info(self._config, self._context.session_id, self._context.bench.machine),
            # What a session that was stopped did not come to is not missing for anyone else.
            outcomes=tuple(outcome for outcome in outcomes if outcome.runs or (_is_missing(outcome) and not stopped)),
            accounting=accounting.counts(),
            settings=self._context.plain_settings(),
        )
        self._keep_record(record)
        if self._settings.stored_name is not None and stopped:
            self._notes.append("The session stopped early: nothing was stored in the baseline.")
        elif self._settings.stored_name is not None:
            with self._told_at_the_end():
                self._notes += Storing(self._context, record.info).store(self._ledger.findings)
        if (path := self._context.json_path) is not None:
            with self._told_at_the_end(), json_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text_whole(path, session_json(record))

    @contextlib.contextmanager
    def _told_at_the_end(self) -> Iterator[None]:
        """Let what cannot be written cost neither what else is to be written nor the table."""
        try:
            yield
        except pytest.UsageError as error:
            self._errors.append(str(error))

    def _keep_record(self, record: SessionRecord) -> None:
        if not record.outcomes:
            return
        try:
            save_session(self._context.storage, record.info.machine.key, record)
        except StoreError as error:
            self._notes.append(f"The session's record was not kept: {error}")


def _is_missing(outcome: Outcome) -> bool:
    return outcome.decision.verdict == "missing"


def _missing(entry: Entry, *, stopped: bool) -> Outcome:
    why = ": the session stopped early" if stopped else ""
    return Outcome(
        benchmark=entry.benchmark,
        identity=entry.identity,
        runs=(),
        decision=Decision(
            verdict="missing",
            reason=f"in the baseline and selected, but not run{why}",
            baseline_runs=len(entry.runs),
        ),
        group=entry.group,
    )
