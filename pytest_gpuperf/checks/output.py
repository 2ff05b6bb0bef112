"""Outputs that were right when they were verified, and no longer are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pytest_gpuperf.checks.chance import Samples, differ_in_many, tell_apart
from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.known_calls import FirstCall
from pytest_gpuperf.checks.launches import Observed
from pytest_gpuperf.checks.tensors import (
    DIFFERENT_SHARE,
    MOST_ITEMS,
    copy_of,
    differs_grossly,
    is_floating,
    same_samples,
    shrunk,
)
from pytest_gpuperf.measure.tensors import mapped

LONGEST_REFERENCE_S = 0.1
ROUNDING_SHARE = {"float64": 1e-6, "complex128": 1e-6, "float32": 5e-4, "complex64": 5e-4}
"""Apart by more than this, two outputs of the same code for the same inputs were not computed alike. Another order of
summation makes 1e-6 in single precision; half the precision, 2e-3."""
MOVED_SHARE = 1e-3
"""An output has followed its inputs if it has moved by this share of its norm."""


def apart(one: Samples, other: Samples, torch: Any, share: float = DIFFERENT_SHARE) -> bool:
    """Whether any of two calls' outputs are apart by more than rounding."""
    return len(one) == len(other) and any(differs_grossly(a, b, torch, share) for a, b in zip(one, other, strict=True))


def _look(evidence: Evidence) -> Iterator[str]:
    if _lost_its_graph(evidence) and not evidence.is_random:
        yield "the verified output can be differentiated, that of a later call cannot"
    if (_differs_from_verified(evidence) or _drifted(evidence)) and _is_of_the_inputs(evidence):
        yield "for the same inputs, the output after the timed calls is not that before them"
    elif _differs_from_reference(evidence):
        yield "on fresh inputs of the same shape, the output is not the reference's"
    elif _depends_on_who_watches(evidence) and _is_of_the_inputs(evidence):
        yield "for the same inputs, the output of a call that is watched is not that of one that is not"


def _is_steady(evidence: Evidence) -> bool:
    """Whether a callable is neither random nor remembers, now: the same inputs give the same to the last bit."""
    if evidence.subject.setup is not None or evidence.rewritten:
        return False
    return _alike(*evidence.pair, evidence) and _alike(evidence.fresh.observed, evidence.fresh_again, evidence)


def _is_of_the_inputs(evidence: Evidence) -> bool:
    """Whether an output should be the same again: it comes neither from earlier calls nor from unwritten memory."""
    if evidence.has_memory or evidence.shows_unwritten_memory:
        return False
    return bool(evidence.changed) or not evidence.depends_on_the_order


def _alike(one: Observed, other: Observed, evidence: Evidence) -> bool:
    """Whether two calls left the same, to the last bit, in what they returned and in what they wrote to."""
    torch = evidence.torch
    return same_samples(one.samples, other.samples, torch) and same_samples(one.written, other.written, torch)


def _apart(one: Observed | FirstCall, other: Observed, evidence: Evidence, share: float = DIFFERENT_SHARE) -> bool:
    torch = evidence.torch
    pairs = (one.samples, other.samples), (one.written, other.written)
    return any(apart(*pair, torch, share) and not _may_be_chance(*pair, evidence) for pair in pairs)


def _may_be_chance(one: Samples, other: Samples, evidence: Evidence) -> bool:
    """Whether a random flag or number may have been the same a few times, and another at last."""
    if differ_in_many(one, other, evidence.torch):
        return False
    return not (tell_apart(one, other, evidence.torch) and evidence.is_settled)


def _rounding(evidence: Evidence) -> float:
    """Return the share that nothing but a change of what is computed explains, where the code is the same."""
    outputs = (*evidence.outputs(evidence.first.output), *evidence.arguments.values())
    dtypes = {str(tensor.dtype).removeprefix("torch.") for tensor in outputs if is_floating(tensor)}
    return max((ROUNDING_SHARE.get(dtype, DIFFERENT_SHARE) for dtype in dtypes), default=DIFFERENT_SHARE)


def _lost_its_graph(evidence: Evidence) -> bool:
    """Whether outputs are no longer part of a graph for backward, which takes time and memory to record."""
    first = evidence.outputs(evidence.first.output)
    later = [evidence.outputs(observed.output) for observed in evidence.pair]
    return any(
        verified.requires_grad and not any(outputs[index].requires_grad for outputs in later)
        for index, verified in enumerate(first)
        if all(len(outputs) == len(first) for outputs in later)
    )


def _differs_from_verified(evidence: Evidence) -> bool:
    """Compare with the verified call."""
    if not _is_steady(evidence) or evidence.first.sums != evidence.sums() or _moved_on(evidence):
        return False
    calls = (evidence.unwatched, evidence.unwatched_alike)
    return all(_apart(evidence.first, now, evidence, _rounding(evidence)) for now in calls)


def _moved_on(evidence: Evidence) -> bool:
    """Whether the early calls, on the same inputs, differ from each other and from now, as on the way to somewhere."""
    if (early := evidence.early) is None:
        return False
    return not _alike(early.observed, early.again, evidence) and not _alike(early.again, evidence.revisited, evidence)


def _drifted(evidence: Evidence) -> bool:
    """Compare with the early calls, whose values the callable has not seen since."""
    early = evidence.early
    if early is None or not _is_steady(evidence) or early.sums != evidence.sums() or _moved_on(evidence):
        return False
    calls = (evidence.revisited, evidence.revisited_alike)
    return all(_apart(early.observed, now, evidence, _rounding(evidence)) for now in calls)


def _depends_on_who_watches(evidence: Evidence) -> bool:
    """Compare calls that are watched with calls that are not, on the same inputs."""
    if not _is_steady(evidence) or evidence.first.sums != evidence.sums():
        return False
    pairs = (evidence.repeated, evidence.unwatched), (evidence.fresh.observed, evidence.fresh_unwatched)
    return any(_apart(*pair, evidence) for pair in pairs) and _differ_if_watched(evidence)


def _differ_if_watched(evidence: Evidence) -> bool:
    """Compare two more calls, which draw the same random numbers."""
    own, dice = evidence.subject.inputs(), evidence.dice()
    watched = [evidence.watch(evidence.bound(*inputs)) for inputs in (own, evidence.copies_of_fresh())]
    with dice.as_they_were():
        others = [evidence.call_unwatched(*inputs) for inputs in (own, evidence.copies_of_fresh())]
    return any(_apart(*pair, evidence) for pair in zip(watched, others, strict=True))


def _differs_from_reference(evidence: Evidence) -> bool:
    subject, first, torch = evidence.subject, evidence.first, evidence.torch
    reference = subject.reference
    if reference is None or reference is subject.fn or evidence.reference_s > LONGEST_REFERENCE_S:
        return False
    now = evidence.fresh.observed.samples
    if not _is_steady(evidence) or apart(first.samples, first.expected_samples, torch):
        # Verified to be close, and yet apart by that measure: both are rounding errors about zero.
        return False
    evidence.reserve(0, 2 * evidence.reference_s)
    expected, again = (evidence.samples(reference(*args, **kwargs)) for args, kwargs in _fresh_values(evidence, 2))
    # A reference that is random itself, or works in place, proves nothing on a second call.
    return apart(expected, now, torch) and same_samples(expected, again, torch) and _differs_nearby(evidence, reference)


def _differs_nearby(evidence: Evidence, reference: Callable[..., Any]) -> bool:
    """Whether outputs differ from the reference's for inputs that are as good as the benchmark's own.

    A function may rely on sorted inputs, or on vectors of unit length, which fresh values are not. Near its own inputs
    it follows its reference; one that has remembered its output stays where it is.
    """
    torch, usual = evidence.torch, evidence.repeated.samples
    args, kwargs = evidence.inputs(change=lambda tensor: shrunk(tensor, torch))
    expected = evidence.samples(reference(*args, **kwargs))
    args, kwargs = evidence.inputs(change=lambda tensor: shrunk(tensor, torch))
    now = evidence.watch(evidence.bound(args, kwargs)).samples
    stays = same_samples(usual, now, torch)
    return apart(expected, now, torch) or (
        stays and apart(expected, evidence.first.expected_samples, torch, MOVED_SHARE)
    )


def _fresh_values(evidence: Evidence, times: int) -> Iterator[tuple[Any, Any]]:
    """Yield the inputs of the fresh call as they were before it."""
    fresh, torch = evidence.fresh, evidence.torch
    before = {id(tensor): fresh.before[name] for name, tensor in fresh.after.items()}
    for _ in range(times):
        yield tuple(
            mapped(value, lambda tensor: copy_of(before[id(tensor)], torch), torch, most_items=MOST_ITEMS)
            for value in (fresh.args, fresh.kwargs)
        )


CHECK = Check(name="output", look=_look, why="what was timed is not what was verified")
