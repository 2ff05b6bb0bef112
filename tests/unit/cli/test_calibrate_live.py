"""`gpuperf calibrate` on this machine's own runs, which are made up here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_gpuperf.commands import calibrate_live
from pytest_gpuperf.commands.live_runs import LiveRuns
from pytest_gpuperf.compare.calibration import Calibration, calibrate
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.machine import Machine

QUICK = ("--comparisons", "10")
GELU, SUM = "perf/test_gelu.py::test_gelu[triton]", "perf/test_sum.py::test_sum"


class Measured:
    """Stands in for the pytest session; remembers what it was asked for."""

    def __init__(self, taken: LiveRuns) -> None:
        self.taken = taken
        self.asked: list[tuple[int, list[str]]] = []

    def __call__(self, runs: int, pytest_arguments: list[str]) -> LiveRuns:
        self.asked.append((runs, pytest_arguments))
        return self.taken


@pytest.fixture
def measured(make_entry: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Measured:
    entries = [make_entry(node_id, runs=20) for node_id in (GELU, SUM)]
    taken = LiveRuns(
        machine=Machine(model="NVIDIA H200", kind="cuda"),
        entries=entries,
        policies={GELU: Policy(), SUM: Policy(min_effect=0.2)},
        confirm_runs=7,
    )
    measured = Measured(taken)
    monkeypatch.setattr(calibrate_live, "take_runs", measured)
    return measured


def test_the_table(gpuperf: Callable[..., Any], measured: Measured) -> None:
    code, out, err = gpuperf("calibrate", *QUICK)
    assert (code, err) == (0, "")
    title, headings, _, gelu, total, suite, smallest = out.splitlines()
    assert title == "NVIDIA H200: 20 runs of 2 benchmarks, dealt 10 times into 10 baseline runs and up to 8 new ones"
    assert headings.split() == ["name", "between", "runs", "regressed", "other", "verdicts", "advanced", "visible"]
    assert gelu.startswith("test_gelu[triton] ")
    assert total.startswith("test_sum ")
    assert "100 % unchanged" in gelu
    assert suite == "suite: 0 of 10 sessions of unchanged code would have failed (0 %; at most 1 % is meant)"
    assert smallest.endswith("for test_sum")
    assert measured.asked == [(20, [])]


def test_json(gpuperf: Callable[..., Any], measured: Measured, folder: Path) -> None:
    code, out, _ = gpuperf("calibrate", *QUICK, "--json", "-")
    assert code == 0
    found = json.loads(out)
    assert {key: found[key] for key in ("machine", "runs", "sessions", "failed_sessions")} == {
        "machine": "NVIDIA H200",
        "runs": 20,
        "sessions": 10,
        "failed_sessions": 0,
    }
    rows = {row["op"]: row for row in found["benchmarks"]}
    assert set(rows) == {GELU, SUM}
    assert rows[GELU]["visible_ratio"] < 1.1 < 1.2 < rows[SUM]["visible_ratio"]
    _, out, _ = gpuperf("calibrate", *QUICK, "--json", "audit.json")
    assert "suite: 0 of 10" in out
    assert json.loads((folder / "audit.json").read_text()) == found


def test_levels_given_hold_for_all(gpuperf: Callable[..., Any], measured: Measured) -> None:
    rows = json.loads(gpuperf("calibrate", *QUICK, "--min-effect", "0.01", "--json", "-").out)["benchmarks"]
    assert all(row["visible_ratio"] < 1.1 for row in rows)


def test_what_no_deal_finds_is_named(gpuperf: Callable[..., Any], measured: Measured) -> None:
    _, out, _ = gpuperf("calibrate", *QUICK, "--baseline-runs", "5", "--confirm-runs", "4")
    assert out.splitlines()[-1] == "no slowdown would be found in: test_gelu[triton], test_sum"


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["--runs", "30", "tests", "-k", "gelu"], (30, ["tests", "-k", "gelu"])),
        (["--", "-k", "gelu"], (20, ["-k", "gelu"])),
        (["tests", "--", "-x.py"], (20, ["tests", "--", "-x.py"])),
        (["--confirm-runs", "4"], (17, [])),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_what_is_measured(
    gpuperf: Callable[..., Any], measured: Measured, arguments: list[str], asked: tuple[int, list[str]]
) -> None:
    gpuperf("calibrate", *QUICK, *arguments)
    assert measured.asked == [asked]


def test_too_few_runs_are_refused_before_any_is_taken(gpuperf: Callable[..., Any], measured: Measured) -> None:
    code, _, err = gpuperf("calibrate", "--runs", "17")
    assert code == 2
    assert "--runs 17: 10 baseline runs, one and 7 confirming runs take 18" in err
    assert measured.asked == []


def test_a_session_that_confirms_with_more_runs_than_were_taken(
    gpuperf: Callable[..., Any], measured: Measured
) -> None:
    measured.taken = replace(measured.taken, confirm_runs=12)
    code, _, err = gpuperf("calibrate", *QUICK)
    assert code == 2
    assert "lower --baseline-runs or --confirm-runs" in err


def test_tests_that_fail(gpuperf: Callable[..., Any], measured: Measured) -> None:
    measured.taken = replace(measured.taken, failures="FAILED test_x")
    code, out, err = gpuperf("calibrate", *QUICK)
    assert code == 2
    assert "suite: 0 of 10" in out
    assert "tests that failed are not in the table:\nFAILED test_x" in err


def test_a_gate_that_cries_wolf(
    gpuperf: Callable[..., Any], measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alarmed(*arguments: Any) -> Calibration:
        return msgspec.structs.replace(calibrate(*arguments), failed_sessions=1)

    monkeypatch.setattr(calibrate_live, "calibrate", alarmed)
    code, out, _ = gpuperf("calibrate", *QUICK)
    assert code == 1
    assert "suite: 1 of 10 sessions of unchanged code would have failed (10 %" in out


@pytest.mark.parametrize("arguments", [["--runs", "20"], ["tests"]])
def test_a_recording_needs_no_tests(gpuperf: Callable[..., Any], arguments: list[str]) -> None:
    code, _, err = gpuperf("calibrate", "--from", "absent.npz", *arguments)
    assert code == 2
    assert "--from replays a recording and measures nothing" in err
