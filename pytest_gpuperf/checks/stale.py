"""Outputs that were never written, and show what an earlier owner of the memory left in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence


def phrases(unwritten: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Say of each output with (unwritten, all) elements what share of it is not written."""
    for index, (elements, of_all) in enumerate(unwritten):
        if elements:
            which = f"output {index}" if len(unwritten) > 1 else "the output"
            yield f"{elements / of_all:.3g} of {which} still holds the NaN that filled its memory before the call"


def _look(evidence: Evidence) -> Iterator[str]:
    yield from phrases(evidence.poisoned.unwritten)


CHECK = Check(
    name="stale",
    look=_look,
    why="elements that are not written hold whatever was there before, by chance the right values",
)
