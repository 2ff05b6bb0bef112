"""Outputs that were right when they were verified, and no longer are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.tensors import EARLY_SCALE, copy_of, differs_grossly, mapped

Samples = tuple[Any, ...]
LONGEST_REFERENCE_S = 0.1


def apart(one: Samples, other: Samples, torch: Any) -> bool:
    """Whether any of two calls' outputs are apart by more than rounding."""
    return len(one) == len(other) and any(differs_grossly(a, b, torch) for a, b in zip(one, other, strict=True))


def _look(evidence: Evidence) -> Iterator[str]:
    if _drifted(evidence):
        yield "for the same inputs, the output after the timed calls is not that before them"
    elif _differs_from_reference(evidence):
        yield "on fresh inputs of the same shape, the output is not the reference's"


def same(one: Samples, other: Samples, torch: Any) -> bool:
    """Whether two calls' outputs are the same to the last bit: a callable that is neither random nor remembers."""
    return len(one) == len(other) and all(map(torch.equal, _numbers(one, torch), _numbers(other, torch)))


def _numbers(samples: Samples, torch: Any) -> Iterator[Any]:
    return (torch.nan_to_num(sample) for sample in samples)


def _drifted(evidence: Evidence) -> bool:
    """Compare with the early calls."""
    early, torch = evidence.early, evidence.torch
    if early is None or evidence.subject.setup is not None:
        return False
    if not same(early.observed.samples, early.again.samples, torch) or early.sums != evidence.sums():
        return False
    now = evidence.revisited.samples
    if not apart(early.observed.samples, now, torch):
        return False
    again = evidence.watch(evidence.bound(*evidence.inputs(change=evidence.refilled(EARLY_SCALE))))
    return same(now, again.samples, torch)


def _differs_from_reference(evidence: Evidence) -> bool:
    subject, first, torch = evidence.subject, evidence.first, evidence.torch
    reference = subject.reference
    if reference is None or reference is subject.fn or (first.reference_s or 1.0) > LONGEST_REFERENCE_S:
        return False
    now = evidence.fresh.observed.samples
    if evidence.changed or not same(now, evidence.fresh_again.samples, torch):
        return False
    evidence.reserve(0, 2 * (first.reference_s or 0.0))
    expected, again = (evidence.samples(reference(*args, **kwargs)) for args, kwargs in _fresh_values(evidence, 2))
    # A reference that is random itself, or works in place, proves nothing on a second call.
    return apart(expected, now, torch) and same(expected, again, torch)


def _fresh_values(evidence: Evidence, times: int) -> Iterator[tuple[Any, Any]]:
    """Yield the inputs of the fresh call as they were before it."""
    fresh, torch = evidence.fresh, evidence.torch
    before = {id(tensor): fresh.before[name] for name, tensor in fresh.after.items()}
    for _ in range(times):
        yield tuple(
            mapped(value, lambda tensor: copy_of(before[id(tensor)], torch), torch)
            for value in (fresh.args, fresh.kwargs)
        )


CHECK = Check(name="output", look=_look, why="what was timed is not what was verified")
