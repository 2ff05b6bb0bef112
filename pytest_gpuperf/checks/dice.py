"""The generators that a callable may draw random numbers from, and calls that draw the same numbers again."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.checks.sight import in_sight
from pytest_gpuperf.checks.subject import Subject


@dataclass(frozen=True, slots=True)
class Dice:
    """Generators of random numbers, each with the state that it was in at some time."""

    states: tuple[tuple[Any, Any], ...] = ()

    def differ_from(self, others: Dice) -> bool:
        """Whether a generator that is in both is in another state."""
        states = {id(generator): state for generator, state in others.states}
        return any(id(one) in states and not _is_same(state, states[id(one)]) for one, state in self.states)

    @contextmanager
    def as_they_were(self) -> Iterator[None]:
        """Draw the numbers of that time in the body; afterwards go on as if it had drawn none."""
        now = [(generator, _state(generator)) for generator, _ in self.states]
        _put(self.states)
        try:
            yield
        finally:
            _put(now)


def dice_of(subject: Subject, torch: Any) -> Dice:
    """Return the generators of the process, and those that a callable holds, as they are now."""
    generators: list[Any] = [random]
    if (numpy := sys.modules.get("numpy")) is not None:
        generators.append(numpy.random)
    if torch is not None:
        generators.append(torch.default_generator)
        device = torch.device(subject.device)
        if device.type == "cuda" and torch.cuda.is_initialized():
            generators.append(torch.cuda.default_generators[device.index or 0])
        generators += in_sight(subject, torch)
    states = []
    for generator in {id(one): one for one in generators}.values():
        with suppress(Exception):  # whatever poses as one
            if (state := _state(generator)) is not None:
                states.append((generator, state))
    return Dice(tuple(states))


def _state(generator: Any) -> Any:
    """Return the state of a generator; None for anything else."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if generator is random or isinstance(generator, random.Random):
        return generator.getstate()
    if torch is not None and isinstance(generator, torch.Generator):
        return generator.get_state()
    if numpy is not None and (generator is numpy.random or isinstance(generator, numpy.random.RandomState)):
        return generator.get_state()
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return generator.bit_generator.state
    return None


def _is_same(one: Any, other: Any) -> bool:
    if hasattr(one, "equal"):  # of torch
        return bool(one.equal(other))
    return pickle.dumps(one) == pickle.dumps(other)


def _put(states: Any) -> None:
    for generator, state in states:
        if generator is random or isinstance(generator, random.Random):
            generator.setstate(state)
        elif hasattr(generator, "bit_generator"):
            generator.bit_generator.state = state
        else:
            generator.set_state(state)
