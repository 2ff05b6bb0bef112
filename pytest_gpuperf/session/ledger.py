"""What became of every test and benchmark of a session, gathered where the reports arrive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import pytest

from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.session.bench import stable_node_id
from pytest_gpuperf.session.failing import restore_message
from pytest_gpuperf.session.findings import STABLE_NODE_ID, Finding, detach

Fate = Literal["passed", "failed", "skipped"]
WORKER_OUTPUT_KEY = "gpuperf_selection"


class Selection:
    """Which tests were collected and which deselected, in a process that collects."""

    def __init__(self) -> None:
        self.collected: dict[str, None] = {}
        """In the order of collection."""
        self.deselected: set[str] = set()

    @property
    def selected(self) -> list[str]:
        """The tests that were collected and not deselected, in order."""
        return [node_id for node_id in self.collected if node_id not in self.deselected]

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note a test that exists."""
        self.collected[item.nodeid] = None

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Note tests that are left out on purpose."""
        self.deselected.update(stable_node_id(item) for item in items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In a worker of pytest-xdist, hand the lists to the controller."""
        output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[WORKER_OUTPUT_KEY] = [list(self.collected), sorted(self.deselected)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """In the controller of pytest-xdist, take a worker's lists."""
        lists = getattr(node, "workeroutput", {}).get(WORKER_OUTPUT_KEY)
        if lists:
            self.collected.update(dict.fromkeys(lists[0]))
            self.deselected.update(lists[1])


class Ledger:
    """Gathers fates and findings from the reports."""

    def __init__(self) -> None:
        self.fates: dict[str, Fate] = {}
        self.durations_s: dict[str, float] = {}
        self.findings: dict[str, Finding] = {}
        self.node_ids: dict[str, str] = {}
        """The test of each benchmark, by the benchmark's key."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a report carries."""
        restore_message(report)
        node_id = getattr(report, STABLE_NODE_ID, report.nodeid)
        self.durations_s[node_id] = self.durations_s.get(node_id, 0.0) + report.duration
        for finding in detach(report):
            key = finding.outcome.benchmark.key
            self.findings[key] = finding
            self.node_ids[key] = node_id
        if report.failed:
            self.fates[node_id] = "failed"
        elif report.skipped:
            self.fates.setdefault(node_id, "skipped")
        elif report.when == "call":
            self.fates.setdefault(node_id, "passed")

    def expect(self, node_id: str, findings: Iterable[Finding], seconds: float) -> None:
        """Take the findings of a test whose report is still to come."""
        self.durations_s[node_id] = seconds
        for finding in findings:
            key = finding.outcome.benchmark.key
            self.findings[key] = finding
            self.node_ids[key] = node_id

    def fates_by_stored_id(self) -> dict[str, Fate]:
        """What became of the tests by themselves, by the (bounded) node ids that a baseline knows tests by.

        A test that fails by a verdict passed by itself.
        """
        passed = set(self.node_ids.values())
        return {
            BenchmarkId.of(node_id).node_id: "passed" if node_id in passed else fate
            for node_id, fate in self.fates.items()
        }
