"""More kernels than the test allows its benchmark."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.launches import Observed, listed


def too_many(observed: Observed, most: int) -> str:
    """Say how many kernels, copies and memsets one call launches, where that is more than `most`."""
    count = len(observed.launches)
    return f"one call launches {count} ({listed(observed.names, 5)}), max_kernels={most}" if count > most else ""


def _look(evidence: Evidence) -> Iterator[str]:
    most = evidence.subject.max_kernels
    if most is not None and evidence.on_gpu and (said := too_many(evidence.repeated, most)):
        yield said


CHECK = Check(
    name="kernels",
    look=_look,
    why="the test limits the kernels of a call",
    instead="fuse them, or raise max_kernels in the perf marker",
    is_limit=True,
)
