"""What the gate is worth on this machine: runs of unchanged code, dealt at random into baselines and sessions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pytest_gpuperf.compare.audit import AuditRow, Deal, audit_row, replay_suite
from pytest_gpuperf.compare.recordings import Suite
from pytest_gpuperf.compare.verdict import Policy


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of a suite's runs in this machine's own processes."""

    runs: int
    """Of each benchmark, each in a process of its own."""
    baseline_runs: int
    confirm_runs: int
    sessions: int
    """How often the runs were dealt anew into a baseline and a session."""
    failed_sessions: int
    """Of those, in how many a benchmark was called regressed."""
    benchmarks: tuple[AuditRow, ...]

    @property
    def failed_share(self) -> float:
        """The share of sessions of unchanged code that would have failed."""
        return self.failed_sessions / self.sessions


def calibrate(suite: Suite, deal: Deal, policies: Mapping[str, Policy]) -> Calibration:
    """Audit runs of unchanged code, each benchmark under the policy of its name.

    Raises RecordingError where a benchmark has fewer runs than a deal takes.
    """
    replays = replay_suite(suite, deal, policies, bases={})
    sessions = zip(*replays.values(), strict=True)
    failed = sum(any(replay.verdict == "regressed" for replay in session) for session in sessions)
    return Calibration(
        runs=min(len(runs) for runs in suite.values()),
        baseline_runs=deal.baseline_runs,
        confirm_runs=deal.confirm_runs,
        sessions=deal.comparisons,
        failed_sessions=failed,
        benchmarks=tuple(audit_row(op, suite, replays[op], deal) for op in suite),
    )
