"""Simulated recordings, replayed as real ones are: clocks and meters that our own recordings have not met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_gpuperf.compare.audit import AuditRow
from pytest_gpuperf.compare.recording_audit import audit_recording

RUNS, TRIALS = 20, 120
SENSITIVITIES = (0.0, 0.5, 1.0, 1.2)
SLOW = pytest.mark.slow
Clocks = Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Simulated:
    """A recording of one operation for each sensitivity, and of the same, slower by 2.5 %."""

    clocks: Clocks
    meter: Callable[[Any, np.ndarray], np.ndarray] = lambda _, clocks: clocks
    between_runs: Callable[[Any], np.ndarray] = lambda g: g.normal(0, 0.002, (RUNS, 1))

    def rows(self, path: Path, seed: int, comparisons: int) -> dict[str, AuditRow]:
        """Record, and replay."""
        g, arrays = np.random.default_rng(seed), {}
        for number, sensitivity in enumerate(SENSITIVITIES):
            for suffix, slower in (("", 1.0), ("_p2.5", 1.025)):
                clocks = self.clocks(g)
                noise = self.between_runs(g) + g.normal(0, 0.01, (RUNS, TRIALS))
                arrays[f"op{number}{suffix}__m"] = 80 * slower * (1.75 / clocks) ** sensitivity * np.exp(noise)
                arrays[f"op{number}{suffix}__m_ghz"] = self.meter(g, clocks)
        np.savez(path, **arrays)
        audit = audit_recording(path, comparisons=comparisons, visible_comparisons=0, seed=seed)
        return {row.op: row for row in audit.rows}


def two_states(g: Any) -> np.ndarray:
    """Either of two clocks a run; some runs change over."""
    states = np.where(g.random((RUNS, 1)) < 0.5, 1.98, 1.62) * np.ones((RUNS, TRIALS))
    for run in np.flatnonzero(g.random(RUNS) < 0.3):
        states[run, g.integers(0, TRIALS) :] = 3.6 - states[run, 0]
    return states * np.exp(g.normal(0, 0.001, states.shape))


def wandering(g: Any) -> np.ndarray:
    """Runs at clocks of their own, 5 % apart, that drift by some percent."""
    drift = np.linspace(0, 1, TRIALS) * g.normal(0, 0.03, (RUNS, 1))
    return 1.75 * np.exp(g.normal(0, 0.05, (RUNS, 1)) + drift)


def steady(g: Any) -> np.ndarray:
    """One clock."""
    return np.full((RUNS, TRIALS), 1.75)


def in_steps(g: Any, clocks: np.ndarray) -> np.ndarray:
    """A meter with steps of 15 MHz."""
    return np.round(clocks / 0.015) * 0.015


def misread(g: Any, clocks: np.ndarray) -> np.ndarray:
    """A meter that misreads one in thirty, and has nothing in one in fifty."""
    read = np.where(g.random(clocks.shape) < 1 / 30, clocks * g.choice([0.1, 0.5, 10.0], clocks.shape), clocks)
    return np.where(g.random(clocks.shape) < 1 / 50, np.nan, read)


def meaningless(g: Any, clocks: np.ndarray) -> np.ndarray:
    """A meter that has nothing to do with the clock, but stays with its figure for a run."""
    return g.uniform(0.3, 2.0, (RUNS, 1)) * np.ones(clocks.shape)


@pytest.mark.parametrize("comparisons", [60, pytest.param(1000, marks=SLOW)])
@pytest.mark.parametrize(
    "simulated",
    [Simulated(two_states), Simulated(wandering), Simulated(wandering, in_steps), Simulated(wandering, misread)],
    ids=["two states", "wandering", "in steps", "misread"],
)
def test_small_slowdowns_are_found_at_whatever_clock(simulated: Simulated, comparisons: int, tmp_path: Path) -> None:
    rows = simulated.rows(tmp_path / "file.npz", 3, comparisons)
    assert max(row.false_alarm_rate for row in rows.values() if row.false_alarm_rate is not None) <= 0.005
    assert min(row.detection_rate for row in rows.values() if row.detection_rate is not None) >= 0.92


@pytest.mark.parametrize("comparisons", [30, pytest.param(1000, marks=SLOW)])
@pytest.mark.parametrize(
    "simulated",
    [
        Simulated(two_states, meaningless),
        Simulated(steady, meaningless),
        Simulated(wandering, meaningless, lambda g: 0.01 * g.standard_t(2, (RUNS, 1))),
        Simulated(wandering, in_steps, lambda g: 0.04 * (g.random((RUNS, 1)) < 0.1)),
    ],
    ids=["meaningless at two states", "meaningless when steady", "heavy tails", "slow runs"],
)
def test_no_meter_and_no_noise_makes_unchanged_code_fail(
    simulated: Simulated, comparisons: int, tmp_path: Path
) -> None:
    rows = simulated.rows(tmp_path / "file.npz", 5, comparisons)
    unchanged = [row for row in rows.values() if row.false_alarm_rate is not None]
    alarms = sum(row.verdict_counts.get("regressed", 0) for row in unchanged)
    assert alarms <= max(1, 0.001 * comparisons * len(unchanged))
    assert max(row.false_alarm_rate or 0.0 for row in unchanged) <= max(0.005, 1 / comparisons)
