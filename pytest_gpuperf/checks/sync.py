"""Hidden synchronisation: lines that make the host wait for the GPU within one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.subject import SYNC


def phrases(places: Mapping[str, int], on_gpu: bool) -> Iterator[str]:
    """Say each place once."""
    verb = "waits for the GPU" if on_gpu else "would wait for a GPU"
    for place, count in places.items():
        times = "" if count == 1 else f" {count} times"
        yield f"{place} {verb}{times} in one call"


def _look(evidence: Evidence) -> Iterator[str]:
    yield from phrases(evidence.waits.waits, evidence.on_gpu)


CHECK = Check(
    name=SYNC,
    look=_look,
    why="the host cannot run ahead, so that the GPU idles while it catches up",
    instead="keep values on the GPU, or read them after the benchmark",
)
