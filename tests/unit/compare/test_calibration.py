"""The audit of a suite's own runs: every benchmark against itself, whole sessions at a time."""

from __future__ import annotations

import math
import random

import pytest

from pytest_gpuperf.compare.audit import Deal
from pytest_gpuperf.compare.calibration import calibrate
from pytest_gpuperf.compare.recordings import RecordingError
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.samples import RunRecord

DEAL = Deal(comparisons=20, visible_comparisons=5)


def _runs(seed: str, spread: float = 0.003, count: int = 20) -> list[RunRecord]:
    noise = random.Random(seed)
    times = [100 * math.exp(noise.gauss(0, spread)) for _ in range(count)]
    return [
        RunRecord(
            trials=100,
            log_median=math.log(time),
            mean_us=time,
            sd_us=1.0,
            min_us=time,
            p5_us=time,
            p95_us=time,
            half_width_us=0.1,
        )
        for time in times
    ]


def _suite(**spreads: float) -> dict[str, list[RunRecord]]:
    return {name: _runs(name, spread) for name, spread in spreads.items()}


def _policies(suite: dict[str, list[RunRecord]], **levels: float) -> dict[str, Policy]:
    return dict.fromkeys(suite, Policy(**levels))  # type: ignore[arg-type]


def test_steady_benchmarks_never_fail_and_see_little() -> None:
    suite = _suite(a=0.002, b=0.003)
    found = calibrate(suite, DEAL, _policies(suite))
    assert (found.runs, found.sessions, found.failed_sessions, found.failed_share) == (20, 20, 0, 0.0)
    for row in found.benchmarks:
        assert row.false_alarm_rate == 0
        assert row.visible_ratio is not None
        assert 1.01 < row.visible_ratio < 1.05


def test_a_noisier_benchmark_sees_less() -> None:
    suite = _suite(steady=0.002, noisy=0.03)
    steady, noisy = calibrate(suite, DEAL, _policies(suite)).benchmarks
    assert (steady.op, noisy.op) == ("steady", "noisy")
    assert steady.spread < noisy.spread
    assert (steady.visible_ratio or 0) < (noisy.visible_ratio or 0)


def test_each_benchmark_is_held_to_its_own_levels() -> None:
    suite = {"strict": _runs("same"), "lenient": _runs("same")}
    policies = {"strict": Policy(min_effect=0.01), "lenient": Policy(min_effect=0.1)}
    strict, lenient = calibrate(suite, DEAL, policies).benchmarks
    assert (strict.visible_ratio or 0) < 1.1 < (lenient.visible_ratio or 0)


def test_a_name_like_that_of_a_known_slowdown_is_no_slowdown() -> None:
    suite = _suite(gelu=0.002, gelu_p2=0.002)
    assert all(row.detection_rate is None for row in calibrate(suite, DEAL, _policies(suite)).benchmarks)


def test_a_session_fails_once_however_many_benchmarks_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_gpuperf.compare import calibration
    from pytest_gpuperf.compare.audit import Replay

    bad, good = Replay(True, "regressed"), Replay(False, "unchanged")
    replays = {"a": [bad, bad, good, good], "b": [bad, good, good, good]}
    monkeypatch.setattr(calibration, "replay_suite", lambda *_, **__: replays)
    suite = _suite(a=0.002, b=0.002)
    found = calibrate(suite, Deal(comparisons=4), _policies(suite))
    assert (found.failed_sessions, found.failed_share) == (2, 0.5)


def test_too_few_runs() -> None:
    suite = {"a": _runs("a", count=17)}
    with pytest.raises(RecordingError, match="a has 17 runs"):
        calibrate(suite, DEAL, _policies(suite))
