"""Runs the tests with benchmarks: each is measured, screened, and, where suspect, confirmed before it is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from _pytest.runner import runtestprotocol

from pytest_gpuperf.compare.fresh import MeasuredEvent
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.errors import StickyDeviceError
from pytest_gpuperf.session.bench import Bench, Measured, stable_node_id
from pytest_gpuperf.session.failing import Fails, apply_findings
from pytest_gpuperf.session.findings import STABLE_NODE_ID, Finding, attach
from pytest_gpuperf.session.gate import Gate, Look
from pytest_gpuperf.session.rounds import FreshRounds, Rounds
from pytest_gpuperf.settings import SessionSettings


@dataclass(slots=True)
class Held:
    """A test that has run, whose reports wait for the confirmation."""

    item: pytest.Item
    reports: list[pytest.TestReport]
    measured: list[Measured]


class Testing:
    """The protocol of benchmark tests in a process that runs them."""

    __test__ = False

    def __init__(
        self, settings: SessionSettings, bench: Bench, gate: Gate, rounds: FreshRounds, fails: Fails, *, can_hold: bool
    ) -> None:
        self._settings = settings
        self._bench = bench
        self._gate = gate
        self._rounds = rounds
        self._fails = fails
        self._can_hold = can_hold
        self._held: list[Held] = []

    def run(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Run one test; log its reports now, or hold them until `settle`."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        self._bench.after_test()
        measured = self._bench.take(stable_node_id(item))
        held = Held(item, reports, measured if _succeeded(reports) else [])
        if self._settings.gate and any(self._suspect(one) for one in held.measured):
            if self._can_hold:
                self._held.append(held)
                return
            self._confirm([held])
        else:
            self._log(held, [self._finding(one) for one in held.measured])
        self._stop_on_lost_device(item)

    def settle(self) -> None:
        """Confirm the suspects, all together, and log their reports."""
        if self._held:
            held, self._held = self._held, []
            self._confirm(held)

    def abandon(self) -> int:
        """Forget the suspects of an interrupted session; return how many tests that were."""
        held, self._held = self._held, []
        return len(held)

    def _suspect(self, measured: Measured) -> bool:
        look = self._look(measured)
        return look is Look.SUSPECT or (look is Look.UNDECIDED and "inconclusive" in self._settings.failing_verdicts)

    def _look(self, measured: Measured) -> Look:
        return self._gate.look(measured.benchmark, measured.identity, measured.record, measured.settings)

    def _confirm(self, held: Sequence[Held]) -> None:
        rounds = self._rounds.run(
            [stable_node_id(one.item) for one in held],
            self._settings.confirm_runs,
            why="confirming suspects",
            own_seconds={stable_node_id(one.item): sum(r.duration for r in one.reports) for one in held},
        )
        for one in held:
            self._log(one, [self._confirmed(one, measured, rounds) for measured in one.measured])

    def _confirmed(self, held: Held, measured: Measured, rounds: Rounds) -> Finding:
        node_id = stable_node_id(held.item)
        events = [e for e in rounds.measured.get(node_id, []) if e.benchmark == measured.benchmark]
        failures = rounds.failures.get(node_id, [])
        problem = failures[0] if failures else ""
        if not problem and len(events) < self._settings.confirm_runs:
            problem = "the fresh processes ran the test without measuring this benchmark"
        return self._finding(measured, events, problem)

    def _finding(self, measured: Measured, events: Sequence[MeasuredEvent] = (), problem: str = "") -> Finding:
        runs = (measured.record, *(event.record for event in events))
        decision = self._gate.decide(measured.benchmark, measured.identity, runs, measured.settings)
        return Finding(
            outcome=Outcome(
                benchmark=measured.benchmark,
                identity=measured.identity,
                runs=runs,
                trials=(measured.trials, *(event.trials for event in events)),
                decision=decision,
                group=measured.settings.group,
            ),
            settings=measured.settings,
            hazards=measured.hazards,
            worth_more_runs=not events and self._look(measured) is not Look.SETTLED,
            problem=problem,
        )

    def _log(self, held: Held, findings: Sequence[Finding]) -> None:
        apply_findings(held.reports, findings, self._fails)
        for report in held.reports:
            setattr(report, STABLE_NODE_ID, stable_node_id(held.item))
            if report.when == "call":
                attach(report, findings)
            held.item.ihook.pytest_runtest_logreport(report=report)
        held.item.ihook.pytest_runtest_logfinish(nodeid=held.item.nodeid, location=held.item.location)

    def _stop_on_lost_device(self, item: pytest.Item) -> None:
        try:
            if "backend" in self._bench.__dict__:
                self._bench.backend.check_usable()
        except StickyDeviceError as error:
            item.session.shouldfail = f"gpuperf: {error}"


def _succeeded(reports: Sequence[pytest.TestReport]) -> bool:
    return len(reports) == 3 and all(report.passed for report in reports)
