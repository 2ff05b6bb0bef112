"""The audit: the plugin's own path, replayed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from pytest_gpuperf.compare.audit import Deal, audit_suite
from pytest_gpuperf.compare.recording_audit import audit_recording
from pytest_gpuperf.compare.recordings import RecordingError, base_of, load_recording
from pytest_gpuperf.compare.verdict import Policy


@pytest.fixture
def suite(runs: Callable) -> dict:
    noise = np.random.default_rng(2).normal(0, 0.003, (3, 20))
    return {"gelu": runs(noise[0]), "gelu_p5": runs(noise[1] + 0.0488), "softmax": runs(noise[2])}


def test_rows_say_what_each_benchmark_came_to(suite: dict) -> None:
    rows = {row.op: row for row in audit_suite(suite, Deal(comparisons=60, visible_comparisons=5), method="events")}
    assert rows["gelu"].false_alarm_rate == 0
    assert rows["gelu"].detection_rate is None
    assert rows["gelu"].true_ratio == 1.0
    assert rows["gelu"].spread == pytest.approx(0.003, rel=0.3)
    assert 1.01 < rows["gelu"].visible_ratio < 1.03
    assert rows["gelu_p5"].detection_rate == 1.0
    assert rows["gelu_p5"].true_ratio == pytest.approx(1.05, abs=0.003)
    assert rows["gelu_p5"].visible_ratio is None
    assert all(sum(row.verdict_counts.values()) == row.comparisons == 60 for row in rows.values())
    assert all(row.method == "events" for row in rows.values())


def test_json_holds_the_rate_that_applies(suite: dict) -> None:
    rows = msgspec.json.decode(msgspec.json.encode(audit_suite(suite, Deal(comparisons=3, visible_comparisons=0))))
    assert "false_alarm_rate" in rows[0]
    assert "detection_rate" not in rows[0]
    assert "detection_rate" in rows[1]
    assert "false_alarm_rate" not in rows[1]


def test_the_same_seed_deals_the_same(suite: dict) -> None:
    deals = [list(Deal(comparisons=5, seed=seed).positions(20)) for seed in (1, 1, 2)]
    assert deals[0] == deals[1] != deals[2]
    assert all(not set(old) & set(new) for old, new in deals[0])
    assert {(len(old), len(new)) for old, new in deals[0]} == {(10, 8)}


def test_levels_are_the_policys(suite: dict) -> None:
    blind = audit_suite(suite, Deal(comparisons=10, visible_comparisons=0), Policy(min_effect=0.2))
    assert [row.detection_rate for row in blind] == [None, 0.0, None]


def test_too_few_runs_say_how_many_it_takes(suite: dict) -> None:
    with pytest.raises(RecordingError, match=r"gelu has 20 runs; 15 baseline runs, one and 7 confirming runs take 23"):
        audit_suite(suite, Deal(baseline_runs=15))


def test_slowdowns_are_known_by_name() -> None:
    names = ["gelu", "gelu_p2", "gelu_p1.5", "lone_p5", "gelu_plain", "gelu_p2_64m", "gelu_p2_64m_p5"]
    suite = dict.fromkeys(names, ())
    assert [base_of(op, suite) for op in suite] == [None, "gelu", "gelu", None, None, None, "gelu_p2_64m"]


def test_a_slowdown_of_a_slowdown_is_held_to_that(runs: Callable) -> None:
    noise = np.random.default_rng(2).normal(0, 0.003, (3, 20))
    suite = {"op": runs(noise[0]), "op_p5": runs(noise[1] + 0.05), "op_p5_p10": runs(noise[2] + 0.15)}
    rows = {row.op: row for row in audit_suite(suite, Deal(comparisons=5, visible_comparisons=1))}
    assert rows["op_p5_p10"].true_ratio == pytest.approx(math.exp(0.10), abs=0.003)
    assert rows["op_p5_p10"].detection_rate == 1.0


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    generator = np.random.default_rng(4)
    clocks = generator.uniform(1.6, 1.9, (18, 1)) * np.ones((18, 40))
    times = 100 / clocks * np.exp(generator.normal(0, 0.002, (18, 40)))
    path = tmp_path / "recording.npz"
    np.savez(path, op__clocked=times, op__clocked_ghz=clocks, op__wall=times * 1.1, notes=np.zeros(1))
    return path


def test_recordings_are_read_by_method_with_their_clocks(recording: Path) -> None:
    methods = load_recording(recording)
    assert {name: list(suite) for name, suite in methods.items()} == {"clocked": ["op"], "wall": ["op"]}
    run = methods["clocked"]["op"][0]
    assert run.trials == 40
    assert len(run.batches) == 2
    assert methods["wall"]["op"][0].clock_ghz is None
    assert list(load_recording(recording, method="wall")) == ["wall"]


def test_the_clock_makes_the_difference(recording: Path) -> None:
    audit = audit_recording(recording, comparisons=1, visible_comparisons=0)
    spreads = {row.method: row.spread for row in audit.rows}
    assert spreads["clocked"] < 0.005 < 0.03 < spreads["wall"]


def test_operations_with_too_few_runs_are_skipped_and_change_nothing_for_the_others(tmp_path: Path) -> None:
    times = 100 * np.exp(np.random.default_rng(1).normal(0, 0.002, (6, 18, 40)))
    whole = {"op__m": times[0], "op_p5__m": 1.05 * times[1], "op__n": times[2]}
    # lone_p5 and lone_p5_p9 have the runs; what they are slower than has not, or is skipped itself.
    few = {"lone__m": times[3][:17], "lone_p5__m": times[4], "lone_p5_p9__m": times[5], "op_p2__m": times[4][:1]}
    audits = []
    for arrays in (whole, few | whole):
        np.savez(tmp_path / "file.npz", **arrays)
        audits.append(audit_recording(tmp_path / "file.npz", comparisons=5, visible_comparisons=1))
    assert audits[0].skipped == ()
    assert audits[1].rows == audits[0].rows
    assert [str(skipped) for skipped in audits[1].skipped] == [
        "lone__m has 17 of the 18 runs that a comparison takes",
        "op_p2__m has 1 of the 18 runs that a comparison takes",
        "lone_p5__m has no lone to be compared with, which is skipped",
        "lone_p5_p9__m has no lone_p5 to be compared with, which is skipped",
    ]


def test_an_unknown_method_is_told_those_there_are(recording: Path) -> None:
    with pytest.raises(RecordingError, match="operation__graph; its methods are clocked, wall"):
        load_recording(recording, method="graph")


@pytest.mark.parametrize("content", [b"", b"not a recording", b"PK\x03\x04broken"])
def test_what_is_no_recording_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.npz"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"file\.npz: not a readable \.npz recording"):
        load_recording(path)


def test_an_absent_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="absent"):
        load_recording(tmp_path / "absent.npz")


@pytest.mark.parametrize(
    "arrays", [{"op__m": np.ones(5)}, {"op__m": np.ones((4, 5)), "op__m_ghz": np.ones((4, 4))}], ids=["flat", "clocks"]
)
def test_arrays_of_another_shape_are_refused_by_key(tmp_path: Path, arrays: dict) -> None:
    np.savez(tmp_path / "file.npz", **arrays)
    with pytest.raises(RecordingError, match="op__m: expected an array of runs × trials"):
        load_recording(tmp_path / "file.npz")


@pytest.mark.parametrize(
    "array",
    [np.array([["a"] * 5] * 4), np.ones((4, 5)) > 0, np.ones((4, 5)) + 1j, np.zeros((4, 5), "m8[us]"), np.array("x")],
    ids=["text", "yes and no", "complex", "spans", "a word"],
)
def test_what_are_no_numbers_is_refused_by_key(tmp_path: Path, array: np.ndarray) -> None:
    np.savez(tmp_path / "file.npz", op__m=array)
    with pytest.raises(RecordingError, match="op__m: expected real numbers"):
        load_recording(tmp_path / "file.npz")


@pytest.mark.parametrize("times", [np.zeros((4, 0)), np.zeros((0, 4)), -np.ones((4, 5)), np.full((4, 5), np.nan)])
def test_no_usable_time_is_refused_by_key(tmp_path: Path, times: np.ndarray) -> None:
    np.savez(tmp_path / "file.npz", op__m=times)
    with pytest.raises(RecordingError, match="op__m: no run has a positive, finite time"):
        load_recording(tmp_path / "file.npz")


def test_runs_that_were_filled_up_are_left_out(tmp_path: Path) -> None:
    times, clocks = np.full((4, 5), 7.0), np.full((4, 5), 1.5)
    times[1], times[3, 2], clocks[1], clocks[2] = np.nan, -1.0, np.nan, 1.8
    np.savez(tmp_path / "file.npz", op__m=times, op__m_ghz=clocks)
    read = load_recording(tmp_path / "file.npz")["m"]["op"]
    assert [run.trials for run in read] == [5, 5, 4]
    assert [run.clock_ghz for run in read] == pytest.approx([1.5, 1.8, 1.5])


@pytest.mark.parametrize("kind", [np.float16, np.int32, np.uint8, np.longdouble, ">f4"])
def test_any_kind_of_number_will_do(tmp_path: Path, kind: object) -> None:
    np.savez(tmp_path / "file.npz", op__m=np.full((4, 5), 7).astype(kind))
    assert [run.mean_us for run in load_recording(tmp_path / "file.npz")["m"]["op"]] == [7.0] * 4


def test_a_methods_name_may_end_like_a_clock(tmp_path: Path) -> None:
    times, clocks = np.full((4, 5), 7.0), np.full((4, 5), 1.5)
    np.savez(tmp_path / "file.npz", op__at_ghz=times, op__at_ghz_ghz=clocks, op__m=times, lone__m_ghz=clocks)
    methods = load_recording(tmp_path / "file.npz")
    assert {name: list(suite) for name, suite in methods.items()} == {"at_ghz": ["op"], "m": ["op"]}
    assert methods["at_ghz"]["op"][0].clock_ghz == pytest.approx(1.5)


def test_keys_that_name_no_operation_or_no_method_are_no_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", __m=np.ones((4, 5)), op__=np.ones((4, 5)), op=np.ones((4, 5)))
    with pytest.raises(RecordingError, match="its methods are none"):
        load_recording(tmp_path / "file.npz")


class Hostile:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("unpickled",)


def test_pickles_are_refused_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = np.array([[Hostile()] * 5] * 4, dtype=object)
    np.savez("file.npz", op__m=hostile)
    with pytest.raises(RecordingError, match="not a readable"):
        load_recording("file.npz")
    np.savez("file.npz", op__m=np.ones((4, 5)), about=hostile)
    assert list(load_recording("file.npz")) == ["m"]
    np.save("single.npy", hostile)
    with pytest.raises(RecordingError, match="no zip archive"):
        load_recording("single.npy")
    assert not (tmp_path / "unpickled").exists()
