"""False alarms and power on recordings of two H200 cards, through the path that the plugin's verdicts take."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.compare.audit import AuditRow
from pytest_gpuperf.compare.recording_audit import audit_recording
from pytest_gpuperf.compare.verdict import Policy

RECORDINGS = Path(__file__).parents[2] / "data"
MANY = pytest.param(2000, marks=pytest.mark.slow)
SLOWDOWNS_FOUND = {
    ("h200_clocked.npz", "clocked"): {
        "gelu_64m_p2": 0.92,
        "softmax_4k_p2": 0.92,
        "matmul_4k_p2": 0.92,
        "sdpa_4k_p3": 0.92,
        "gelu_64m_p5": 0.99,
        "softmax_4k_p5": 0.99,
        "matmul_4k_p5": 0.99,
    },
    ("h200_a.npz", "graph_flush"): {"gelu_64m_p2": 0.85, "gelu_64m_p5": 0.95, "softmax_4k_p5": 0.95},
    ("h200_a.npz", "ev_ahead"): {"gelu_64m_p5": 0.85, "softmax_4k_p5": 0.85, "matmul_4k_p5": 0.85},
    ("h200_a.npz", "wall"): {},
    ("h200_a.npz", "ev_flush"): {},
    ("h200_a.npz", "ev_warm"): {},
}
REPLAYS = pytest.mark.parametrize(("file", "method"), SLOWDOWNS_FOUND, ids=lambda value: value)


def replay(file: str, method: str, comparisons: int, **options: object) -> dict[str, AuditRow]:
    audit = audit_recording(
        RECORDINGS / file, method=method, comparisons=comparisons, visible_comparisons=0, seed=3, **options
    )
    return {row.op: row for row in audit.rows}


@REPLAYS
@pytest.mark.parametrize("comparisons", [100, MANY])
def test_unchanged_code_does_not_fail_and_known_slowdowns_do(file: str, method: str, comparisons: int) -> None:
    rows = replay(file, method, comparisons)
    unchanged = [row for row in rows.values() if row.false_alarm_rate is not None]
    alarms = sum(row.verdict_counts.get("regressed", 0) for row in unchanged)
    assert alarms <= max(1, 0.001 * comparisons * len(unchanged))
    assert all(row.false_alarm_rate <= max(0.005, 1 / comparisons) for row in unchanged)
    assert sum(row.advanced_rate for row in unchanged) / len(unchanged) <= 0.15
    for op, share in SLOWDOWNS_FOUND[file, method].items():
        assert rows[op].detection_rate >= share, op


@pytest.mark.parametrize("comparisons", [60, MANY])
def test_smaller_slowdowns_are_found_with_a_smaller_min_effect(comparisons: int) -> None:
    rows = replay("h200_clocked.npz", "clocked", comparisons, policy=Policy(min_effect=0.005))
    assert all(row.false_alarm_rate <= 0.005 for row in rows.values() if row.false_alarm_rate is not None)
    for op in ("gelu_64m_p2", "softmax_4k_p2", "matmul_4k_p2", "sdpa_4k_p3"):
        assert rows[op].detection_rate >= 0.99


def test_the_adjustment_is_what_finds_them() -> None:
    adjusted = replay("h200_clocked.npz", "clocked", 60)
    wall = replay("h200_clocked.npz", "wall", 60)
    assert adjusted["matmul_4k"].spread < 0.25 * wall["matmul_4k"].spread
    assert wall["gelu_64m_p2"].detection_rate < 0.1 < 0.9 < adjusted["gelu_64m_p2"].detection_rate


@pytest.mark.slow
@pytest.mark.parametrize(("baseline_runs", "confirm_runs"), [(5, 7), (8, 6), (12, 7), (10, 9)])
def test_other_counts_of_runs_are_as_honest(baseline_runs: int, confirm_runs: int) -> None:
    for file, method in SLOWDOWNS_FOUND:
        rows = replay(file, method, 1000, baseline_runs=baseline_runs, confirm_runs=confirm_runs)
        unchanged = [row for row in rows.values() if row.false_alarm_rate is not None]
        alarms = sum(row.verdict_counts.get("regressed", 0) for row in unchanged)
        assert alarms <= 0.001 * sum(row.comparisons for row in unchanged)
