"""Times that are too short for what the call is said to move and compute."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gpuperf.checks.ceilings import Ceilings
from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence

MARGIN = 1.1
"""Above a ceiling by more than this is no error of measurement."""


def impossible(
    time_us: float, ceilings: Ceilings, *, bytes_moved: float | None = None, flops: float | None = None
) -> str:
    """Say which ceiling a time breaks through; empty where it breaks none.

    What fits into the cache twice over need not pass through memory, so that its bytes prove nothing.
    """
    moved = 0.0 if bytes_moved is None or bytes_moved <= 2 * ceilings.cache_bytes else bytes_moved
    limits = ((moved, ceilings.bytes_per_s, "TB/s"), (flops or 0.0, ceilings.flops_per_s, "TFLOP/s"))
    for amount, ceiling, unit in limits:
        rate = amount / (time_us * 1e-6)
        if ceiling is not None and rate > MARGIN * ceiling:
            return f"{rate / 1e12:.3g} {unit} by {time_us:.3g} us; the device can do {ceiling / 1e12:.3g} {unit}"
    return ""


def _look(evidence: Evidence) -> Iterator[str]:
    subject, timed = evidence.subject, evidence.timed
    if timed is None or evidence.ceilings is None:
        return
    said = impossible(timed.record.mean_us, evidence.ceilings, bytes_moved=subject.bytes_moved, flops=subject.flops)
    if said:
        yield said


CHECK = Check(
    name="speed",
    look=_look,
    why="no device does that, so that work is left out or bytes_moved or flops is wrong",
    instead="state what one call has to move and to compute",
)
