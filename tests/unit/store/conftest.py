"""Small records to store, and a storage to store them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Workload
from pytest_gpuperf.measure.samples import RunRecord, Trials
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.schema import Baseline, Entry, SessionInfo, SessionRecord
from pytest_gpuperf.store.storage import Storage, open_storage

MACHINE = Machine(model="NVIDIA H200", kind="cuda", host="node1", driver="580.1")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "store")


@pytest.fixture
def machine_key() -> str:
    return MACHINE.key


@pytest.fixture
def make_run() -> Callable[..., RunRecord]:
    def make(mean_us: float = 12.5, **changes: object) -> RunRecord:
        run = RunRecord(
            trials=20,
            log_median=2.52573,
            mean_us=mean_us,
            sd_us=0.25,
            min_us=12.25,
            p5_us=12.26,
            p95_us=12.75,
            half_width_us=0.125,
        )
        return msgspec.structs.replace(run, **changes)

    return make


@pytest.fixture
def make_entry(make_run: Callable[..., RunRecord]) -> Callable[..., Entry]:
    def make(name: str = "a", runs: int = 2, *, timer: str = "events", mean_us: float = 12.5) -> Entry:
        return Entry(
            benchmark=BenchmarkId.of(f"tests/test_{name}.py::test_{name}"),
            identity=Identity(timer=timer, cache="cold", workload=Workload(arguments="float32[4]@cuda", flops=8.0)),
            runs=tuple(make_run(mean_us) for _ in range(runs)),
        )

    return make


@pytest.fixture
def make_session() -> Callable[..., SessionInfo]:
    def make(session_id: str = "5e551011", **changes: object) -> SessionInfo:
        info = SessionInfo(id=session_id, started="2026-12-01T00:45:00Z", commit="0123456789abcdef", machine=MACHINE)
        return msgspec.structs.replace(info, **changes)

    return make


@pytest.fixture
def session(make_session: Callable[..., SessionInfo]) -> SessionInfo:
    return make_session()


@pytest.fixture
def baseline(make_entry: Callable[..., Entry], session: SessionInfo) -> Baseline:
    return baselines.replace_entries(None, [make_entry("a"), make_entry("b")], session)


@pytest.fixture
def record(make_entry: Callable[..., Entry], session: SessionInfo) -> SessionRecord:
    entry = make_entry()
    trials = Trials(times_us=(12.3, 12.7), batch_indices=(0, 0), clocks_ghz=(1.7, 1.8))
    outcome = Outcome(
        benchmark=entry.benchmark,
        identity=entry.identity,
        runs=entry.runs,
        trials=(trials,),
        decision=Decision(verdict="unchanged", reason="the interval rules out 5 %", ratio=1.001),
    )
    return SessionRecord(
        info=session, outcomes=(outcome,), accounting={"measured": 1}, settings={"alpha": 0.001, "timer": "auto"}
    )
