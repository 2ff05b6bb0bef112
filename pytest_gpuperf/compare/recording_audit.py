"""The self-audit of a recording: what in it has enough runs is replayed, and what has not is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.compare.audit import (
    DEFAULT_COMPARISONS,
    DEFAULT_VISIBLE_COMPARISONS,
    AuditRow,
    Deal,
    audit_suite,
)
from pytest_gpuperf.compare.recordings import RecordingError, Suite, base_of, load_recording
from pytest_gpuperf.compare.verdict import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An operation of the recording that was not replayed."""

    op: str
    method: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op}__{self.method} has {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingAudit:
    """What a recording's operations came to, one row each, and those that could not be replayed."""

    rows: tuple[AuditRow, ...]
    skipped: tuple[Skipped, ...]


def audit_recording(
    path: str | Path,
    *,
    method: str | None = None,
    baseline_runs: int = 10,
    confirm_runs: int = 7,
    comparisons: int = DEFAULT_COMPARISONS,
    visible_comparisons: int = DEFAULT_VISIBLE_COMPARISONS,
    seed: int = 0,
    policy: Policy | None = None,
) -> RecordingAudit:
    """Replay a recording (`.npz`): every operation for false alarms, every `op_pN` for detection.

    `method` picks one of several; `policy` gives the levels (its counts of gated benchmarks and confirming runs are
    the replay's). Raises RecordingError for a file that holds no recording, or no operation with enough runs.
    """
    deal = Deal(
        baseline_runs=baseline_runs,
        confirm_runs=confirm_runs,
        comparisons=comparisons,
        visible_comparisons=visible_comparisons,
        seed=seed,
    )
    rows: list[AuditRow] = []
    skipped: list[Skipped] = []
    for name, suite in load_recording(path, method=method).items():
        reasons = _unfit(suite, deal)
        skipped += [Skipped(op=op, method=name, reason=reason) for op, reason in reasons.items()]
        fit = {op: runs for op, runs in suite.items() if op not in reasons}
        rows += audit_suite(fit, deal, policy, method=name) if fit else []
    if not rows:
        raise RecordingError(
            f"{path}: nothing can be replayed; {skipped[0]}: lower --baseline-runs or --confirm-runs, or record more"
        )
    return RecordingAudit(rows=tuple(rows), skipped=tuple(skipped))


def _unfit(suite: Suite, deal: Deal) -> dict[str, str]:
    """Return the operations that cannot be replayed, each with the reason."""
    reasons = {
        op: f"{len(runs)} of the {deal.runs} runs that a comparison takes"
        for op, runs in suite.items()
        if len(runs) < deal.runs
    }
    # Without the operation that it is slower than, a known slowdown would be taken for unchanged code.
    # By length, so that an operation comes before its slowdown, and that before a slowdown of its own.
    for op in sorted(suite, key=len):
        base = base_of(op, suite)
        if base in reasons:
            reasons.setdefault(op, f"no {base} to be compared with, which is skipped")
    return reasons
