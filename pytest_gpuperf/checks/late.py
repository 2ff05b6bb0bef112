"""Outputs that follow the inputs late: of calls that work now and then only, or hand on what earlier ones worked out.

Most callables are called in one short order on two inputs, and are done with. Where both inputs got the same output, it
is looked at how an output follows when the inputs change: a constant does not, a state or a difference to the call
before does at once, and what comes by chance does not come again in the same order.
"""

from __future__ import annotations

from itertools import cycle, repeat

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.chance import Samples, tell_apart
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.subject import Inputs

LONGEST_TURN = 10
"""Of so many calls, one works: whoever works less often is not told."""
IN_TURNS = (True, False, True, True, False, False)
"""Whether a call is on the benchmark's own inputs: in this order, an output that is up to three calls late, or that is
worked out on every second call or less often, is once that of the other inputs."""
FORETOLD = 20
"""Calls whose outputs have to be those foretold: two values that come by chance come so once in a million times."""


def calls_late(evidence: Evidence) -> int:
    """Return how many calls on other inputs still give the output of those before; zero where none is proven to."""
    if not _can_be_told(evidence):
        return 0
    own, new = (evidence.subject.args, evidence.subject.kwargs), evidence.copies_of_fresh()
    if not _is_mixed_up(own, new, evidence):
        return 0
    late = _steady_delay(own, new, evidence)
    return late if late and _own_are_left_alone(evidence) else 0


def _can_be_told(evidence: Evidence) -> bool:
    """Whether there are two inputs that stay what they are, and outputs to compare."""
    if not any(map(tensors.is_floating, evidence.arguments.values())):
        return False
    return bool(evidence.fresh.observed.samples) and not evidence.changed and _own_are_left_alone(evidence)


def _own_are_left_alone(evidence: Evidence) -> bool:
    """Whether calls on other inputs do not leave these in the benchmark's own, as replayed graphs do."""
    return bool(evidence.first.sums == evidence.sums())


def _is_mixed_up(own: Inputs, new: Inputs, evidence: Evidence) -> bool:
    """Whether any output came for both inputs."""
    evidence.reserve(len(IN_TURNS))
    seen: dict[bool, list[Samples]] = {True: [], False: []}
    for is_own in IN_TURNS:
        seen[is_own].append(evidence.call_unwatched(*(own if is_own else new)).samples)
    return any(tensors.same_samples(one, other, evidence.torch) for one in seen[True] for other in seen[False])


def _steady_delay(own: Inputs, new: Inputs, evidence: Evidence) -> int:
    """Change between the inputs as soon as the output does; return after how many calls it does each time.

    Zero unless the output goes to and fro between the same two, equally late each time, and only if the inputs change.
    """
    evidence.reserve(2 * LONGEST_TURN)
    of_own = [evidence.call_unwatched(*own).samples for _ in range(LONGEST_TURN)][-1]
    _, of_new = _until_it_changes(of_own, new, evidence)
    if not tell_apart(of_own, of_new, evidence.torch):
        return 0
    now, delays, foretold = of_new, set[int](), 0
    turns = ((own, of_own), (new, of_new))
    for (inputs, expected), other in zip(cycle(turns), cycle(turns[::-1]), strict=False):
        delay, changed = _until_it_changes(now, inputs, evidence)
        delays.add(delay)
        if 0 in delays or len(delays) > 1 or not tensors.same_samples(changed, expected, evidence.torch):
            return 0
        now, foretold = changed, foretold + delay + 1
        if foretold >= FORETOLD:
            stays = all(_is_again(now, inputs, evidence) for _ in range(2 * delay + 1))
            return delay if stays and _follows_a_single_call(delay, inputs, other, evidence) else 0
    return 0


def _follows_a_single_call(delay: int, usual: Inputs, other: tuple[Inputs, Samples], evidence: Evidence) -> bool:
    """Whether one call on other inputs is followed too: a median of the last calls goes to and fro, and ignores it.

    It is a call that works, if one out of so many does: as many calls after the output has changed, twice over.
    """
    inputs_once, expected = other
    evidence.reserve(delay + 1)
    return any(_is_again(expected, inputs, evidence) for inputs in (inputs_once, *repeat(usual, delay)))


def _until_it_changes(before: Samples, inputs: Inputs, evidence: Evidence) -> tuple[int, Samples]:
    """Call until the output is another one; return how many calls it was not, and the last output."""
    evidence.reserve(LONGEST_TURN)
    now = before
    for count in range(LONGEST_TURN):
        now = evidence.call_unwatched(*inputs).samples
        if not tensors.same_samples(before, now, evidence.torch):
            return count, now
    return LONGEST_TURN, now


def _is_again(output: Samples, inputs: Inputs, evidence: Evidence) -> bool:
    return tensors.same_samples(output, evidence.call_unwatched(*inputs).samples, evidence.torch)
