"""Small findings to judge, report and store."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision
from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Workload
from pytest_gpuperf.measure.samples import RunRecord, Trials
from pytest_gpuperf.session.findings import Finding
from pytest_gpuperf.settings import BenchmarkSettings


@pytest.fixture
def make_run() -> Callable[..., RunRecord]:
    """Return what makes one run of a benchmark that takes some microseconds."""

    def make(us: float = 100.0, session: str = "") -> RunRecord:
        return RunRecord(
            session=session,
            trials=20,
            log_median=math.log(us),
            locations=(math.log(us),),
            mean_us=us,
            sd_us=0.1,
            min_us=us,
            p5_us=us,
            p95_us=us,
            half_width_us=0.1,
        )

    return make


@pytest.fixture
def make_finding(make_run: Callable[..., RunRecord]) -> Callable[..., Finding]:
    """Return what makes a finding on a test."""

    def make(
        node_id: str = "test_a.py::test_a",
        verdict: str = "unchanged",
        *,
        name: str = "",
        reason: str = "why",
        **changes,
    ) -> Finding:
        outcome = Outcome(
            benchmark=BenchmarkId.of(node_id, name),
            identity=Identity(timer="events, scripted", cache="cold", workload=Workload()),
            runs=(make_run(),),
            trials=(Trials(times_us=(100.0, 101.0), batch_indices=(0, 0)),),
            decision=Decision(verdict=verdict, reason=reason),  # type: ignore[arg-type]
        )
        return Finding(outcome=outcome, settings=BenchmarkSettings(), **changes)

    return make


@pytest.fixture
def make_report() -> Callable[..., pytest.TestReport]:
    """Return what makes a test's report."""

    def make(when: str = "call", outcome: str = "passed", node_id: str = "test_a.py::test_a") -> pytest.TestReport:
        return pytest.TestReport(
            nodeid=node_id,
            location=("test_a.py", 3, "test_a"),
            keywords={},
            outcome=outcome,  # type: ignore[arg-type]
            longrepr=None,
            when=when,  # type: ignore[arg-type]
            duration=0.5,
        )

    return make
