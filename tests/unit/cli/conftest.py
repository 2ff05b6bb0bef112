"""A storage with two machines' baselines and a session, and a way to run the command on it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision, Policy
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Workload
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.store import baselines, sessions
from pytest_gpuperf.store.schema import Entry, SessionInfo, SessionRecord
from pytest_gpuperf.store.storage import Storage, open_storage

H200 = Machine(model="NVIDIA H200", kind="cuda", host="node7", driver="580.65.06", torch="2.11.0")
UPDATED_H200 = Machine(model="NVIDIA H200", kind="cuda", host="node7", driver="580.82.07", torch="2.11.0")
EPYC = Machine(model="AMD EPYC 9654", kind="cpu", host="ci1")

SLOW, STEADY, GONE, ADDED = (
    "perf/test_gelu.py::test_gelu[triton]",
    "perf/test_gelu.py::test_gelu[torch]",
    "perf/test_softmax.py::test_softmax[256]",
    "perf/test_step.py::test_step",
)


class Result(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str


Gpuperf = Callable[..., Result]


def _runs(mean_us: float, count: int, seed: str) -> tuple[RunRecord, ...]:
    noise = random.Random(seed)
    times = [mean_us * math.exp(noise.gauss(0, 0.003)) for _ in range(count)]
    return tuple(
        RunRecord(
            trials=200,
            log_median=math.log(time_us),
            mean_us=time_us * 1.001,
            sd_us=time_us * 0.02,
            min_us=time_us * 0.97,
            p5_us=time_us * 0.98,
            p95_us=time_us * 1.03,
            half_width_us=time_us * 0.003,
            clock_ghz=1.75,
            peak_memory_bytes=64 << 20,
        )
        for time_us in times
    )


MakeEntry = Callable[..., Entry]


@pytest.fixture
def make_entry() -> MakeEntry:
    def make(node_id: str, mean_us: float = 50.0, runs: int = 10, *, timer: str = "events", seed: str = "") -> Entry:
        return Entry(
            benchmark=BenchmarkId.of(node_id),
            identity=Identity(timer=timer, cache="cold", workload=Workload(arguments="float32[4096]@cuda")),
            runs=_runs(mean_us, runs, f"{node_id} {seed}"),
        )

    return make


def _outcome(entry: Entry, verdict: str, **decided: object) -> Outcome:
    return Outcome(
        benchmark=entry.benchmark,
        identity=entry.identity,
        runs=entry.runs,
        decision=Decision(verdict=verdict, reason="as it was seen", new_runs=len(entry.runs), **decided),
        policy=Policy(min_effect=0.02),
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which a `.gpuperf` may lie."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def storage(folder: Path) -> Storage:
    (folder / ".gpuperf").mkdir()
    return open_storage(folder / ".gpuperf")


@pytest.fixture
def stored(storage: Storage, make_entry: MakeEntry) -> Storage:
    """`main` on both machines; one session on the H200: one slower, one steady, one gone, one added."""
    saved = SessionInfo(id="ab12cd", started="2026-11-30T10:00:00Z", commit="1234567890abcdef", machine=H200)
    on_cpu = SessionInfo(id="cpu001", started="2026-11-29T10:00:00Z", machine=EPYC)
    for info, factor in ((saved, 1.0), (on_cpu, 40.0)):
        entries = [make_entry(node_id, 50.0 * factor, seed=info.id) for node_id in (SLOW, STEADY, GONE)]
        baselines.update(
            storage, info.machine.key, "main", lambda old, e=entries, i=info: baselines.replace_entries(old, e, i)
        )
    slow, steady = make_entry(SLOW, 53.0, 8, seed="now"), make_entry(STEADY, 50.0, 1, seed="now")
    added, gone = make_entry(ADDED, 160.0, 1, seed="now"), make_entry(GONE, 50.0, 0)
    outcomes = (
        _outcome(slow, "regressed", ratio=1.06, ratio_low=1.05, ratio_high=1.07, p_welch=1e-9, p_rank=2e-5),
        _outcome(steady, "unchanged", ratio=1.001),
        _outcome(added, "new"),
        _outcome(gone, "missing"),
    )
    now = SessionInfo(id="ef34ab", started="2026-12-01T10:00:00Z", commit="fedcba09", machine=UPDATED_H200)
    accounting = {"measured": 3, "missing": 1, "baseline": 3, "new": 1}
    sessions.save(storage, H200.key, SessionRecord(info=now, outcomes=outcomes, accounting=accounting))
    return storage


@pytest.fixture
def gpuperf(folder: Path, capsys: pytest.CaptureFixture[str]) -> Gpuperf:
    def run(*arguments: str) -> Result:
        code = main(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
