"""Copies to the GPU from pageable memory, which the host has to wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence


def phrases(places: Mapping[str, int]) -> Iterator[str]:
    """Say each place once."""
    for place, count_bytes in places.items():
        yield f"{place} copies {count_bytes} bytes to the GPU from pageable memory"


def _look(evidence: Evidence) -> Iterator[str]:
    yield from phrases(evidence.waits.pageable)


CHECK = Check(
    name="pageable",
    look=_look,
    why="such a copy goes through a staging buffer and holds the host up, `non_blocking=True` or not",
    instead="pin the memory (`tensor.pin_memory()`), or make the tensor on the GPU",
)
