"""Results that are looked up instead of computed: by the inputs' address, identity, shape or content, or by turns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import CONFIRMING, Evidence
from pytest_gpuperf.checks.kept import returns_what_was_kept
from pytest_gpuperf.checks.late import calls_late
from pytest_gpuperf.checks.launches import Observed, listed, missing
from pytest_gpuperf.checks.tensors import ALONE_SCALE
from pytest_gpuperf.measure.origins import attribute_of

COPIES = re.compile(r"copy|memcpy|clone|memset", re.IGNORECASE)


def looked_up(first: Observed, again: Observed, repeated: Observed) -> Counter[str]:
    """Return the work of a call on new inputs that neither a second call on them nor the timed calls do."""
    return missing(first, again) if missing(first, repeated) else Counter()


def cache_hits(fn: Any, calls: int) -> str:
    """Say how many of the calls a function that is itself wrapped by functools.cache has answered from the cache."""
    info = attribute_of(fn, "cache_info")
    hits = getattr(info() if callable(info) else None, "hits", 0)
    answered = isinstance(hits, int) and hits >= calls > 0
    return f"the function is wrapped in a cache that answered {hits} calls" if answered else ""


def _look_at_function(evidence: Evidence) -> Iterator[str]:
    if evidence.timed is not None and (said := cache_hits(evidence.subject.fn, evidence.timed.record.trials)):
        yield said


def _look(evidence: Evidence) -> Iterator[str]:
    if said := _by_work(evidence) or _by_memory(evidence) or _by_address(evidence):
        yield said


def _look_at_turns(evidence: Evidence) -> Iterator[str]:
    if late := calls_late(evidence):
        calls = "call returns" if late == 1 else "calls return"
        yield f"where the inputs change, {late} more {calls} the output for those before"


def _by_work(evidence: Evidence) -> str:
    if not evidence.fresh.after or evidence.rewritten:
        return ""
    first, again, repeated = evidence.fresh.observed, evidence.fresh_again, evidence.repeated
    if gone := looked_up(first, again, repeated):
        if not _is_of_every_input(evidence, evidence.refilled(ALONE_SCALE)) or _starts_where_it_ended(evidence):
            return ""
        return f"the first call on new inputs runs {listed(gone)}, a second one on the same inputs does not"
    gone = remembered(first, again, repeated)
    if gone and _is_of_every_bit(evidence):
        return (
            f"the timed calls leave out {listed(gone)}, which a call runs on copies of their inputs that differ in one "
            "element by one bit"
        )
    return ""


def _is_of_every_bit(evidence: Evidence) -> bool:
    return _is_of_every_input(evidence, lambda tensor: tensors.nudged(tensor, evidence.torch))


def _starts_where_it_ended(evidence: Evidence) -> bool:
    """Whether a call works on what the one before has left, as solvers do: one bit of the inputs is nothing to them."""
    return evidence.has_memory and not _is_of_every_bit(evidence)


def remembered(first: Observed, again: Observed, repeated: Observed) -> Counter[str]:
    """Return the work that calls on new inputs do, however often, and the timed calls do not.

    Copies do not count: a graph that was captured for the inputs at hand has others copied there, and a result that is
    remembered may be handed out as a copy.
    """
    first, again, repeated = (_without_copies(one) for one in (first, again, repeated))
    return missing(first, repeated) if missing(again, repeated) else Counter()


def _without_copies(observed: Observed) -> Observed:
    return replace(observed, launches=tuple(one for one in observed.launches if not COPIES.search(one.name)))


def _is_of_every_input(evidence: Evidence, change: Callable[[Any], Any]) -> bool:
    """Whether a call does more for each input that is new by itself.

    If only some of several do, that is what is derived from weights once; if none does, it was chance the first time.
    """
    named = evidence.arguments
    floating = [name for name, t in named.items() if tensors.is_floating(t)] or list(named)
    return bool(floating) and all(_does_more_for_new(name, evidence, change) for name in floating)


def _does_more_for_new(name: str, evidence: Evidence, change: Callable[[Any], Any]) -> bool:
    """Whether a call does more than the timed ones, and the one before it, if this argument alone is new."""
    new = evidence.arguments[name]
    # What has been prepared for weights is theirs again, if there is room for those of one call only.
    evidence.watch(evidence.bound(*evidence.subject.inputs()))
    dice = evidence.dice()
    before = evidence.watch(evidence.bound(*evidence.subject.inputs()))
    args, kwargs = evidence.inputs(change=lambda t: change(t) if t is new else t)
    with dice.as_they_were():
        now = evidence.watch(evidence.bound(args, kwargs))
    # A solver that starts where it has ended does more on its own inputs too, after it has seen others.
    return all(
        missing(now, usual) or missing(_without_copies(now), _without_copies(usual))
        for usual in (evidence.repeated, before)
    )


def _by_memory(evidence: Evidence) -> str:
    if returns_what_was_kept(evidence):
        return "what a call returns was there before it: values that are written over it come back from the next call"
    return ""


def _by_address(evidence: Evidence) -> str:
    """Write other values into the fresh buffers: an output that does not follow was looked up by address or shape."""
    if evidence.changed or not any(tensors.is_floating(t) for t in evidence.fresh.after.values()):
        return ""
    old, usual = evidence.fresh.observed.samples, evidence.repeated.samples
    if not old or not _apart(old, usual, evidence.torch):
        return ""
    if evidence.first.sums != evidence.sums():
        return ""  # a graph's own input, where calls on others leave theirs
    own = evidence.named(*evidence.subject.inputs())
    with evidence.torch.no_grad():
        for name, tensor in evidence.fresh.after.items():
            tensors.overwrite(tensor, own[name])
    if _is_kept_for_fresh(old, evidence) and _is_no_chance(old, evidence):
        return "the output stays the same when other values are written into the inputs, and differs for new inputs"
    return ""


def _is_kept_for_fresh(old: tuple[Any, ...], evidence: Evidence) -> bool:
    now = evidence.call_unwatched(evidence.fresh.args, evidence.fresh.kwargs).samples
    return len(now) == len(old) and all(map(evidence.torch.equal, now, old))


def _is_no_chance(old: tuple[Any, ...], evidence: Evidence) -> bool:
    """Whether it is that output for these buffers and another for the benchmark's own, however often either is asked.

    All calls on the ones come before those on the others, as there may be room for one result only.
    """
    evidence.reserve(2 * CONFIRMING)
    return all(_is_kept_for_fresh(old, evidence) for _ in range(CONFIRMING)) and all(
        _apart(old, evidence.call_unwatched(*evidence.subject.inputs()).samples, evidence.torch)
        for _ in range(CONFIRMING)
    )


def _apart(one: tuple[Any, ...], other: tuple[Any, ...], torch: Any) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and tensors.differs_grossly(a, b, torch) for a, b in zip(one, other, strict=True)
    )


_WHY = "the timed calls look the result up instead of computing it"
_INSTEAD = "benchmark the function below the cache"
CHECK = Check(name="caching", look=_look, why=_WHY, instead=_INSTEAD)
CACHED_FUNCTION = Check(name="caching", look=_look_at_function, why=_WHY, instead=_INSTEAD)
LATE = Check(name="caching", look=_look_at_turns, why=_WHY, instead=_INSTEAD)
"""Makes more calls than the others, for which time may be short."""
