"""Inputs that a call changes, so that the next call has other work to do."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence


def _look(evidence: Evidence) -> Iterator[str]:
    if evidence.subject.works_in_place:
        return
    names = list(evidence.rewritten)
    if not names:
        names = [name for name in evidence.written_at_first if _is_left_alone_now(name, evidence)]
    if names:
        yield f"a call changes {', '.join(names)}"
    elif taken := evidence.arguments.keys() - evidence.named(*evidence.subject.inputs()).keys():
        yield f"a call takes {', '.join(sorted(taken))} out of what holds it"


def _is_left_alone_now(name: str, evidence: Evidence) -> bool:
    """Whether an argument that the first calls changed is no output: later calls leave it as it is, whatever it is."""
    if name in evidence.changed:
        return False
    if tensors.is_floating(evidence.arguments[name]):
        return True
    # Integers were the same again, and may have been written to the same end.
    if not evidence.fresh.before[name].any():
        return False
    other = evidence.call_with_other_start(name)
    return tensors.same_bits(other.before, other.after, evidence.torch)


CHECK = Check(
    name="mutation",
    look=_look,
    why="later trials work on other inputs than were verified, and may have less to do",
    instead="give each call its own inputs with setup=",
)
