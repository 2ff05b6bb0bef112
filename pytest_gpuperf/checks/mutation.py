"""Inputs that a call changes, so that the next call has other work to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence


def _look(evidence: Evidence) -> Iterator[str]:
    if evidence.subject.works_in_place:
        return
    names = [name for name in evidence.changed if _is_read(name, evidence)]
    if not names:
        names = [name for name, total in evidence.sums().items() if _changed_at_first(name, total, evidence)]
    if names:
        yield f"a call changes {', '.join(names)}"


def _changed_at_first(name: str, total: int, evidence: Evidence) -> bool:
    """Whether the first calls changed an argument that later calls leave alone.

    That would be a mere output, if integers that are written again and again to the same end were not the same sight.
    """
    floating = tensors.is_floating(evidence.arguments[name])
    return floating and evidence.first.sums.get(name, total) != total and name not in evidence.changed


def _is_read(name: str, evidence: Evidence) -> bool:
    """Whether what is left in a changed argument depends on what was in it: if not, it is an output."""
    fresh, torch = evidence.fresh, evidence.torch
    one, other = (_call_with_other_start(name, evidence) for _ in range(2))
    left_alike = tensors.same_bits(one.after, other.after, torch)
    if not (left_alike and tensors.same_samples(one.samples, other.samples, torch)):
        return False  # random, so that nothing follows from a difference
    if not tensors.same_samples(one.samples, fresh.observed.samples, torch):
        return True
    return depends_on_its_past((fresh.before[name], fresh.after[name]), (one.before, one.after), torch)


@dataclass(frozen=True, slots=True)
class _OtherStart:
    """One argument before and after a call that differs from the fresh call in it alone, and the call's output."""

    before: Any
    after: Any
    samples: tuple[Any, ...]


def _call_with_other_start(name: str, evidence: Evidence) -> _OtherStart:
    torch, before = evidence.torch, evidence.fresh.before
    name_of = {id(tensor): known for known, tensor in evidence.arguments.items()}
    args, kwargs = evidence.inputs(change=lambda tensor: tensors.copy_of(before[name_of[id(tensor)]], torch))
    target = evidence.named(args, kwargs)[name]
    with torch.no_grad():
        # Integers may be indices, of which zero is valid whatever it indexes.
        start = before[name] * tensors.ALONE_SCALE if tensors.is_floating(target) else torch.zeros_like(target)
        tensors.overwrite(target, start)
    given = tensors.copy_of(target, torch)
    output = evidence.watch(evidence.bound(args, kwargs))
    return _OtherStart(given, target, output.samples)


def depends_on_its_past(one: tuple[Any, Any], other: tuple[Any, Any], torch: Any) -> bool:
    """Compare two (before, after) pairs: whether any element that was written depends on what it was before.

    An element is left alone, or written with something that does not depend on it, where it is unchanged in both, or
    the same in both afterwards.
    """
    (before_a, after_a), (before_b, after_b) = (_pair(pair) for pair in (one, other))
    untouched = _equal(before_a, after_a, torch) & _equal(before_b, after_b, torch)
    return bool((~(untouched | _equal(after_a, after_b, torch))).any())


def _pair(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    return pair[0].detach(), pair[1].detach()


def _equal(a: Any, b: Any, torch: Any) -> Any:
    return (a == b) | (torch.isnan(a) & torch.isnan(b)) if tensors.is_floating(a) else a == b


CHECK = Check(
    name="mutation",
    look=_look,
    why="later trials work on other inputs than were verified, and may have less to do",
    instead="give each call its own inputs with setup=",
)
