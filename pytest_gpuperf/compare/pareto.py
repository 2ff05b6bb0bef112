"""The choices that cannot be improved on one axis without losing on another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
Axis = Callable[[T, T], int]
"""Compares two choices: negative where the first is better, positive where it is worse, 0 where they count as equal."""


def pareto_front(choices: Sequence[T], axes: Sequence[Axis[T]]) -> tuple[T, ...]:
    """Return the choices, in their order, that no other choice dominates; all of them where there is no axis."""
    return tuple(choice for choice in choices if not any(dominates(other, choice, axes) for other in choices))


def dominates(one: T, other: T, axes: Sequence[Axis[T]]) -> bool:
    """Whether `one` is worse than `other` on no axis and better on at least one (Pareto 1906)."""
    compared = [axis(one, other) for axis in axes]
    return all(sign <= 0 for sign in compared) and any(sign < 0 for sign in compared)
