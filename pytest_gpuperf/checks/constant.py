"""Inputs that are the same number over and over."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.tensors import is_floating

FEWEST_ELEMENTS = 1024


def _look(evidence: Evidence) -> Iterator[str]:
    floating = {name: t for name, t in evidence.arguments.items() if is_floating(t)}
    large = [t for t in floating.values() if t.numel() >= FEWEST_ELEMENTS]
    if not large or evidence.subject.works_in_place:
        return
    evidence.reserve_bytes(sum(t.numel() * t.element_size() for t in large))
    if all(bool((t == t.reshape(-1)[0]).all()) for t in floating.values() if t.numel()) and not evidence.changed:
        yield f"every element of {', '.join(floating)} is {large[0].reshape(-1)[0].item():g}"


CHECK = Check(
    name="constant",
    look=_look,
    why="such inputs hide wrong indices and unwritten outputs, and run faster than real ones on a GPU",
    instead="use random inputs",
)
