"""Outputs that are nobody's work: a view of an input, or the reference's own output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.tensors import storage_of

Storage = tuple[str, int]


def owner(outputs: Iterable[Storage], owned: dict[str, Storage]) -> str:
    """Return the name of what owns the memory of all outputs; empty where any has memory of its own."""
    by_storage = {storage: name for name, storage in owned.items()}
    owners = {by_storage.get(storage, "") for storage in outputs}
    return "" if not owners or "" in owners else " and ".join(sorted(owners))


def _look(evidence: Evidence) -> Iterator[str]:
    yield from _of_reference(evidence)
    if evidence.subject.works_in_place or not evidence.arguments:
        return
    arguments = {name: storage_of(tensor) for name, tensor in evidence.arguments.items()}
    owners = owner(evidence.repeated.memory, arguments)
    if owners and not evidence.changed:
        yield f"the output is a view of {owners}, which the call leaves as it is"


def _of_reference(evidence: Evidence) -> Iterator[str]:
    subject, first = evidence.subject, evidence.first
    if subject.reference is None or subject.reference is subject.fn:
        return
    arguments = {storage_of(tensor) for tensor in evidence.arguments.values()}
    if (set(first.expected_memory) - arguments) & set(first.memory):
        yield "the output is in the memory of the reference's output"


CHECK = Check(name="aliasing", look=_look, why="an output that is not the call's own says nothing of its work")
