"""Which bytes of its storage a tensor takes: sorted runs that do not touch, and what is left of some without others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod
from typing import Any

Runs = tuple[tuple[int, int], ...]
"""Each is (first byte, byte after the last)."""
MOST_RUNS = 4096


def runs_of(tensor: Any) -> Runs | None:
    """Return the bytes that a strided tensor takes; None where they are too scattered to be listed."""
    length = size = tensor.element_size()
    steps = []
    for stride, count in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if count > 1 and stride * size <= length:  # dense, overlapping, or expanded
            length += (count - 1) * stride * size
        elif count > 1:
            steps.append(range(0, count * stride * size, stride * size))
    if prod(map(len, steps)) > MOST_RUNS:
        return None
    first = tensor.storage_offset() * size
    starts = (first + sum(at) for at in product(*steps))
    return merged((start, start + length) for start in starts)


def merged(runs: Iterable[tuple[int, int]]) -> Runs:
    """Return the same bytes, each once."""
    whole: list[tuple[int, int]] = []
    for start, stop in sorted(runs):
        if whole and start <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(stop, whole[-1][1])
        else:
            whole.append((start, stop))
    return tuple(whole)


def without(runs: Runs, others: Runs) -> Runs:
    """Return the bytes that are in no other run."""
    left: list[tuple[int, int]] = []
    index = 0
    for start, stop in runs:
        while index < len(others) and others[index][1] <= start:
            index += 1
        at = index
        while at < len(others) and others[at][0] < stop:
            if others[at][0] > start:
                left.append((start, others[at][0]))
            start = others[at][1]
            at += 1
        if start < stop:
            left.append((start, stop))
    return tuple(left)


def meet(runs: Runs, others: Runs) -> bool:
    """Whether any byte is in both."""
    return without(runs, others) != runs
