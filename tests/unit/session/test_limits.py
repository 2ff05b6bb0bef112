"""What a session makes of one measurement beside ceilings and limits, without a session around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.measure.backends.fake import FakeBackend
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan, Workload
from pytest_gpuperf.session.limits import Limits
from pytest_gpuperf.settings import BenchmarkSettings

BYTES = 3.6e8


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def taken(backend: FakeBackend, time_us: float, **stated: float):
    plan = Plan(benchmark=BenchmarkId(node_id="t.py::t"), workload=Workload(**stated))
    return measure(lambda: backend.clock.advance_us(time_us), plan, backend)


def never():
    raise AssertionError("measured again without need")


def test_nothing_stated_fetches_nothing(cache: Path) -> None:
    backend = FakeBackend(run=1)
    judged = Limits(backend, "cached", off=False).judge(taken(backend, 100.0), BenchmarkSettings(), never)
    assert (judged.findings, judged.physics.share, backend.probings) == ((), None, 0)
    assert list(cache.rglob("*.json")) == []


def test_ceilings_are_fetched_once_a_process() -> None:
    backend = FakeBackend(run=1)
    limits = Limits(backend, "measure", off=False)
    for _ in range(3):
        judged = limits.judge(taken(backend, 100.0, bytes_moved=BYTES), BenchmarkSettings(), never)
        assert judged.physics.share == pytest.approx(0.9, rel=0.05)
    assert backend.probings == 1


def test_what_is_impossible_makes_the_ceilings_be_measured_again_but_once() -> None:
    backend = FakeBackend(run=1)
    limits = Limits(backend, "cached", off=False)
    for _ in range(2):
        judged = limits.judge(taken(backend, 10.0, bytes_moved=BYTES), BenchmarkSettings(checks="off"), never)
        (finding,) = judged.findings
        assert (finding.check, finding.is_limit) == ("impossible", True)
    assert backend.probings == 2


def test_a_disturbed_measurement_is_not_held_against_the_limit() -> None:
    backend = FakeBackend(run=1)
    settings = BenchmarkSettings(min_speed_of_light=0.8)
    again = []

    def undisturbed():
        again.append(1)
        return taken(backend, 100.0, bytes_moved=BYTES)

    limits = Limits(backend, "cached", off=False)
    judged = limits.judge(taken(backend, 150.0, bytes_moved=BYTES), settings, undisturbed)
    assert (judged.findings, again) == ((), [1])
    assert judged.physics.share == pytest.approx(0.9, rel=0.05)


def test_fresh_processes_judge_nothing() -> None:
    backend = FakeBackend(run=1)
    settings = BenchmarkSettings(min_speed_of_light=0.99)
    judged = Limits(backend, "measure", off=True).judge(taken(backend, 200.0, bytes_moved=BYTES), settings, never)
    assert (judged.findings, judged.physics.share, backend.probings) == ((), None, 0)
    assert judged.measurement.record.notes == ()


def test_ceilings_that_cannot_be_measured_cost_the_share_and_are_noted_and_not_tried_again() -> None:
    class Full(FakeBackend):
        def _probes(self):
            self.probings += 1
            raise MemoryError("out of memory")

    backend = Full(run=1)
    limits = Limits(backend, "cached", off=False)
    for _ in range(2):
        judged = limits.judge(taken(backend, 100.0, bytes_moved=BYTES), BenchmarkSettings(), never)
        assert judged.physics.share is None
        assert judged.physics.terabytes_per_second == pytest.approx(3.6, rel=0.05)
        (said,) = judged.measurement.record.notes
        assert said.endswith("failed (MemoryError: out of memory)")
    assert backend.probings == 1


def test_memory_that_is_not_told_is_said_to_be_unjudged() -> None:
    class Silent(FakeBackend):
        def peak_memory_bytes(self, target):
            return None

    backend = Silent(run=1)
    settings = BenchmarkSettings(max_peak_memory=1)
    judged = Limits(backend, "cached", off=False).judge(taken(backend, 100.0), settings, never)
    assert judged.findings == ()
    assert judged.measurement.record.notes == ("max_peak_memory is not judged: this device does not tell its memory",)
