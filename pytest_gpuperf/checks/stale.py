"""Outputs that were never written, and show what an earlier owner of the memory left in it."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.memory import is_poison
from pytest_gpuperf.checks.tensors import is_floating


def unwritten_share(poison_seen: int, poison_elsewhere: int, elements: int) -> float:
    """Return the share of elements that show poison when memory was poisoned and did not when it was not."""
    return max(0, poison_seen - poison_elsewhere) / elements if elements else 0.0


def _look(evidence: Evidence) -> Iterator[str]:
    usual = evidence.outputs(evidence.repeated.output)
    poisoned = evidence.poisoned.late
    for index, (before, now) in enumerate(zip(usual, poisoned, strict=False)):
        if not is_floating(now) or now.shape != before.shape:
            continue
        seen, elsewhere = (int(is_poison(t, evidence.torch).sum()) for t in (now, before))
        if share := unwritten_share(seen, elsewhere, now.numel()):
            which = f"output {index}" if len(poisoned) > 1 else "the output"
            yield f"{share:.3g} of {which} still holds the NaN that its memory was filled with before the call"


CHECK = Check(
    name="stale",
    look=_look,
    why="elements that are not written hold whatever was there before, by chance the right values",
)
