"""Outputs that are nobody's work: a view of an input, or the reference's own output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.tensors import same_bits, storage_of

Storage = tuple[str, int]


def owners(outputs: Iterable[Storage], owned: dict[str, Storage]) -> list[str]:
    """Return the names of what owns the memory of all outputs; none where any has memory of its own."""
    by_storage = {storage: name for name, storage in owned.items()}
    names = {by_storage.get(storage, "") for storage in outputs}
    return [] if "" in names else sorted(names)


def _look(evidence: Evidence) -> Iterator[str]:
    yield from _of_reference(evidence)
    if evidence.subject.works_in_place or not evidence.arguments:
        return
    arguments = {name: storage_of(tensor) for name, tensor in evidence.arguments.items()}
    names = owners(evidence.repeated.memory, arguments)
    if not names or evidence.changed or any(_is_written(name, evidence) for name in names):
        return
    if not evidence.is_random:  # layers may be left out by chance, all of them too
        yield f"the output is a view of {' and '.join(names)}, which the call leaves as it is"


def _is_written(name: str, evidence: Evidence) -> bool:
    """Whether the call writes to an argument after all, which held by chance what is written to it."""
    if evidence.subject.setup is not None:
        return False
    other = evidence.call_with_other_start(name)
    return not same_bits(other.before, other.after, evidence.torch)


def _of_reference(evidence: Evidence) -> Iterator[str]:
    subject, first = evidence.subject, evidence.first
    if subject.reference is None or subject.reference is subject.fn:
        return
    arguments = {storage_of(tensor) for tensor in evidence.arguments.values()}
    if (set(first.expected_memory) - arguments) & set(first.memory):
        yield "the output is in the memory of the reference's output"


CHECK = Check(name="aliasing", look=_look, why="an output that is not the call's own says nothing of its work")
