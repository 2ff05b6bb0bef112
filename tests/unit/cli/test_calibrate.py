"""`gpuperf calibrate --from`: the self-audit on recordings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

KEYS = {
    "op", "method", "baseline_runs", "confirm_runs", "comparisons", "advanced_rate", "true_ratio", "verdict_counts"
}  # fmt: skip


@pytest.fixture
def recording(folder: Path) -> str:
    noise = np.random.default_rng(7)
    runs = noise.normal(0, 0.002, size=(20, 1)) + noise.normal(0, 0.01, size=(20, 40))
    slower = np.log(1.06) + noise.normal(0, 0.002, size=(20, 1)) + noise.normal(0, 0.01, size=(20, 40))
    arrays = {
        "gelu__events": 75 * np.exp(runs),
        "gelu_p6__events": 75 * np.exp(slower),
        "gelu__wall": 80 * np.exp(runs),
    }
    np.savez(folder / "rec.npz", **arrays)
    return "rec.npz"


def test_it_finds_the_slowdown_and_nothing_else(gpuperf: Callable, recording: str) -> None:
    code, out, err = gpuperf("calibrate", "--from", recording, "--comparisons", "20")
    assert (code, err) == (0, "")
    assert "events: 10 baseline runs, up to 8 new ones, 20 comparisons each" in out
    assert "false alarms: 0 in 20 comparisons of unchanged code (0 %)" in out
    assert "detected: 20 in 20 comparisons of slower code (100 %)" in out
    assert "wall: 10 baseline runs" in out


def test_json_has_the_documented_keys(gpuperf: Callable, recording: str, folder: Path) -> None:
    arguments = ["--from", recording, "--method", "events", "--baseline-runs", "8", "--confirm-runs", "6"]
    code, out, _ = gpuperf("calibrate", *arguments, "--comparisons", "10", "--json", "audit.json")
    assert code == 0
    assert "wall" not in out
    rows = {row["op"]: row for row in json.loads((folder / "audit.json").read_text())}
    assert set(rows) == {"gelu", "gelu_p6"}
    assert all(set(row) >= KEYS for row in rows.values())
    assert rows["gelu"]["false_alarm_rate"] == 0
    assert rows["gelu_p6"]["detection_rate"] == 1
    assert rows["gelu_p6"]["true_ratio"] == pytest.approx(1.06, abs=0.01)
    assert (rows["gelu"]["baseline_runs"], rows["gelu"]["confirm_runs"]) == (8, 6)


def test_json_on_standard_output(gpuperf: Callable, recording: str) -> None:
    _, out, _ = gpuperf("calibrate", "--from", recording, "--comparisons", "5", "--json", "-")
    assert len(json.loads(out)) == 3


def test_an_operation_with_too_few_runs_is_named_and_the_others_are_judged(
    gpuperf: Callable, recording: str, folder: Path
) -> None:
    with np.load(recording) as arrays:
        np.savez("more.npz", **arrays, lone__events=np.ones((3, 40)))
    quick = ["--comparisons", "5", "--json", "-"]
    judged = gpuperf("calibrate", "--from", recording, *quick)
    code, out, err = gpuperf("calibrate", "--from", "more.npz", *quick)
    assert (code, out) == judged[:2]
    assert code == 0
    assert err == ("gpuperf: warning: lone__events has 3 of the 18 runs that a comparison takes; it is not replayed\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--from", "absent.npz"],
        ["--from", "rec.npz", "--method", "graph"],
        ["--from", "rec.npz", "--baseline-runs", "19"],
        ["--from", "text.npz"],
    ],
    ids=["absent", "other method", "too few runs", "no recording"],
)
def test_recordings_that_cannot_be_replayed(
    gpuperf: Callable, recording: str, folder: Path, arguments: list[str]
) -> None:
    (folder / "text.npz").write_text("no archive")
    code, out, err = gpuperf("calibrate", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("gpuperf: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--comparisons", "0"], "must be a whole number of at least 1"),
        (["--baseline-runs", "ten"], "must be a whole number of at least 2; got 'ten'"),
        (["--alpha", "0"], "must be between 0 and 0.5"),
    ],
)
def test_impossible_settings(gpuperf: Callable, recording: str, arguments: list[str], message: str) -> None:
    code, _, err = gpuperf("calibrate", "--from", recording, *arguments)
    assert code == 2
    assert message in err
