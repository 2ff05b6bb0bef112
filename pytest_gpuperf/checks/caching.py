"""Results that are looked up instead of computed: by the inputs' address, identity, shape or content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.kept import returns_what_was_kept
from pytest_gpuperf.checks.launches import Observed, listed, missing
from pytest_gpuperf.checks.tensors import ALONE_SCALE

COPIES = re.compile(r"copy|memcpy|clone|memset", re.IGNORECASE)


def looked_up(first: Observed, again: Observed, repeated: Observed) -> Counter[str]:
    """Return the work of a call on new inputs that neither a second call on them nor the timed calls do."""
    return missing(first, again) if missing(first, repeated) else Counter()


def cache_hits(fn: Any, calls: int) -> str:
    """Say how many of the calls a function that is itself wrapped by functools.cache has answered from the cache."""
    info = getattr(fn, "cache_info", None)
    hits = getattr(info() if callable(info) else None, "hits", 0)
    answered = isinstance(hits, int) and hits >= calls > 0
    return f"the function is wrapped in a cache that answered {hits} calls" if answered else ""


def _look_at_function(evidence: Evidence) -> Iterator[str]:
    if evidence.timed is not None and (said := cache_hits(evidence.subject.fn, evidence.timed.record.trials)):
        yield said


def _look(evidence: Evidence) -> Iterator[str]:
    if said := _by_work(evidence) or _by_turn(evidence) or _by_address(evidence) or _by_memory(evidence):
        yield said


def _by_work(evidence: Evidence) -> str:
    if not evidence.fresh.after or evidence.rewritten:
        return ""
    first, again, repeated = evidence.fresh.observed, evidence.fresh_again, evidence.repeated
    if gone := looked_up(first, again, repeated):
        if not _is_of_every_input(evidence, evidence.refilled(ALONE_SCALE)):
            return ""
        return f"the first call on new inputs runs {listed(gone)}, a second one on the same inputs does not"
    gone = remembered(first, again, repeated)
    if gone and _is_of_every_input(evidence, lambda tensor: tensors.nudged(tensor, evidence.torch)):
        return (
            f"the timed calls leave out {listed(gone)}, which a call runs on copies of their inputs that differ in one "
            "element by one bit"
        )
    return ""


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
    """Whether a call does more than the timed ones if this argument alone is new."""
    new = evidence.arguments[name]
    # What has been prepared for weights is theirs again, if there is room for those of one call only.
    for _ in range(2):
        evidence.watch(evidence.bound(*evidence.subject.inputs()))
    args, kwargs = evidence.inputs(change=lambda t: change(t) if t is new else t)
    now, usual = evidence.watch(evidence.bound(args, kwargs)), evidence.repeated
    return bool(missing(now, usual) or missing(_without_copies(now), _without_copies(usual)))


def _by_turn(evidence: Evidence) -> str:
    """Look for outputs that follow the inputs one call late, as if on their way through a queue."""
    torch, fresh, early = evidence.torch, evidence.fresh, evidence.early
    first = fresh.observed.samples
    if evidence.changed or not first or tensors.same_samples(first, evidence.fresh_again.samples, torch):
        return ""
    others = (*evidence.pair, *((early.observed, early.again) if early else ()))
    if not any(tensors.same_samples(first, other.samples, torch) for other in others):
        return ""
    # Twice, as whoever computes on every second call only comes out with every second call; five is odd.
    if any(_is_late(evidence) for _ in range(2)):
        return "the output is that of the call before, on whatever inputs that was"
    return ""


def _is_late(evidence: Evidence) -> bool:
    torch, fresh = evidence.torch, evidence.fresh
    own, new = (evidence.subject.args, evidence.subject.kwargs), (fresh.args, fresh.kwargs)
    _, of_own, on_new, on_new_again, on_own = (
        evidence.watch(evidence.bound(*inputs)).samples for inputs in (own, own, new, new, own)
    )
    late = tensors.same_samples(of_own, on_new, torch) and tensors.same_samples(on_new_again, on_own, torch)
    return late and not tensors.same_samples(on_new, on_new_again, torch)


def _by_memory(evidence: Evidence) -> str:
    if returns_what_was_kept(evidence):
        return "what a call returns was there before it: values that are written over it come back from the next call"
    return ""


def _by_address(evidence: Evidence) -> str:
    """Write other values into the fresh buffers: an output that does not follow was looked up by address or shape."""
    if evidence.changed or not any(tensors.is_floating(t) for t in evidence.fresh.after.values()):
        return ""
    old, usual = evidence.fresh.observed.samples, evidence.repeated.samples
    if not old or len(old) != len(usual) or not _apart(old, usual, evidence.torch):
        return ""
    if evidence.first.sums != evidence.sums():
        return ""  # a graph's own input, where calls on others leave theirs
    own = evidence.named(*evidence.subject.inputs())
    with evidence.torch.no_grad():
        for name, tensor in evidence.fresh.after.items():
            tensors.overwrite(tensor, own[name])
    evidence.reserve(1)
    now = evidence.samples(evidence.bound(evidence.fresh.args, evidence.fresh.kwargs)())
    if len(now) == len(old) and all(map(evidence.torch.equal, now, old)):
        return "the output stays the same when other values are written into the inputs, and differs for new inputs"
    return ""


def _apart(one: tuple[Any, ...], other: tuple[Any, ...], torch: Any) -> bool:
    return all(a.shape == b.shape and tensors.differs_grossly(a, b, torch) for a, b in zip(one, other, strict=True))


_WHY = "the timed calls look the result up instead of computing it"
_INSTEAD = "benchmark the function below the cache"
CHECK = Check(name="caching", look=_look, why=_WHY, instead=_INSTEAD)
CACHED_FUNCTION = Check(name="caching", look=_look_at_function, why=_WHY, instead=_INSTEAD)
