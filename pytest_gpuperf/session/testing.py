"""Runs the tests with benchmarks: each is measured and screened; what is not settled by that waits, or is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from _pytest.runner import runtestprotocol

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.errors import StickyDeviceError
from pytest_gpuperf.session.bench import Bench, Measured, stable_node_id
from pytest_gpuperf.session.failing import Fails, apply_findings
from pytest_gpuperf.session.findings import STABLE_NODE_ID, Finding, Look, attach
from pytest_gpuperf.session.gate import Gate
from pytest_gpuperf.session.rounds import FreshRounds, timers_of, with_runs
from pytest_gpuperf.settings import SessionSettings


@dataclass(frozen=True, slots=True)
class Held:
    """A test that has run, whose reports wait for the verdict."""

    item: pytest.Item
    reports: list[pytest.TestReport]
    findings: list[Finding]

    @property
    def node_id(self) -> str:
        """The test's node id, as baselines know it."""
        return stable_node_id(self.item)

    @property
    def seconds(self) -> float:
        """How long the test took in this session."""
        return sum(report.duration for report in self.reports)

    def log(self, findings: Sequence[Finding], fails: Fails) -> None:
        """Report the test, failed where a finding asks for it."""
        apply_findings(self.reports, findings, fails)
        for report in self.reports:
            setattr(report, STABLE_NODE_ID, self.node_id)
            if report.when == "call":
                attach(report, findings)
            self.item.ihook.pytest_runtest_logreport(report=report)
        self.item.ihook.pytest_runtest_logfinish(nodeid=self.item.nodeid, location=self.item.location)


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
        """Run one test; report it now, or hold it for `take_held`."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        self._bench.after_test()
        measured = self._bench.take(stable_node_id(item))
        passed = _succeeded(reports) and not self._bench.subtests.failed_in(item)
        held = Held(item, reports, [self._finding(one) for one in measured] if passed else [])
        if self._can_hold and any(finding.look is not Look.SETTLED for finding in held.findings):
            self._held.append(held)
        else:
            held.log(self._confirmed_here(held), self._fails)
        self._stop_on_lost_device(item)

    def take_held(self) -> list[Held]:
        """Return and forget the tests whose reports wait."""
        held, self._held = self._held, []
        return held

    def _confirmed_here(self, held: Held) -> list[Finding]:
        """Confirm within the test's own protocol what cannot wait for the session's end."""
        urgent = {Look.SUSPECT, Look.UNDECIDED} if "inconclusive" in self._settings.failing_verdicts else {Look.SUSPECT}
        if not any(finding.look in urgent for finding in held.findings):
            return held.findings
        if held.item.config.pluginmanager.hasplugin("timeout"):
            # The test itself is over: its time limit (pytest-timeout) is not for what its confirmation takes.
            held.item.ihook.pytest_timeout_cancel_timer(item=held.item)
        rounds = self._rounds.run(
            [held.node_id],
            self._settings.confirm_runs,
            why="confirming a suspect",
            timers=timers_of(held.findings),
            own_seconds={held.node_id: held.seconds},
        )
        return [self._decided(with_runs(finding, held.node_id, rounds)) for finding in held.findings]

    def _finding(self, measured: Measured) -> Finding:
        look = Look.SETTLED
        if self._settings.against is not None:
            look = Look.WAITING
        elif self._settings.gate:
            look = self._gate.look(measured.benchmark, measured.identity, measured.record, measured.settings)
        runs = (measured.record,)
        return Finding(
            outcome=Outcome(
                benchmark=measured.benchmark,
                identity=measured.identity,
                runs=runs,
                trials=(measured.trials,),
                decision=self._gate.decide(measured.benchmark, measured.identity, runs, measured.settings),
                policy=self._gate.policy(measured.settings),
                hazards=measured.hazards,
                checks=measured.checks,
                group=measured.settings.group,
                ceiling_share=measured.physics.share,
                bound=measured.physics.bound,
            ),
            settings=measured.settings,
            look=look,
            against=self._settings.against or "",
        )

    def _decided(self, finding: Finding) -> Finding:
        outcome = finding.outcome
        decision = self._gate.decide(outcome.benchmark, outcome.identity, outcome.runs, finding.settings)
        return finding.deciding(decision)

    def _stop_on_lost_device(self, item: pytest.Item) -> None:
        try:
            self._bench.check_usable()
        except StickyDeviceError as error:
            item.session.shouldfail = f"gpuperf: {error}"


def _succeeded(reports: Sequence[pytest.TestReport]) -> bool:
    return len(reports) == 3 and all(report.passed for report in reports)
