"""What a callable may work with: what its arguments, functions and objects hold, and what these hold in turn."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from pytest_gpuperf.checks.places import LIBRARIES
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.measure.origins import package_of
from pytest_gpuperf.measure.tensors import DEPTH

STEPS, MOST_VALUES = 5, 500
"""How far to look, and at how many values in each step."""
MOST_ITEMS = 256
PLAIN = (tuple, list, dict)
"""What can be looked through before the first call: other mappings may do work, or read files, for each value."""


def held(output: Any, depth: int = DEPTH, kinds: tuple[type, ...] = (tuple, list, Mapping)) -> Iterator[Any]:
    """Yield the output and what its tuples, lists and mappings hold, of long ones the beginning."""
    yield output
    if depth and isinstance(output, kinds):
        items: Any = output.values() if isinstance(output, Mapping) else output
        for item in islice(items, MOST_ITEMS):
            yield from held(item, depth - 1, kinds)


def in_sight(subject: Subject, torch: Any) -> Iterator[Any]:
    """Yield it, each value once."""
    level: list[Any] = [*subject.args, *subject.kwargs.values(), subject.fn]
    seen: dict[int, Any] = {}
    for _ in range(STEPS):
        new = {id(value): value for outer in level for value in held(outer, kinds=PLAIN) if id(value) not in seen}
        seen |= new
        yield from new.values()
        level = []
        for value in islice(new.values(), MOST_VALUES):
            with suppress(Exception):  # attributes may be anything, and refuse to be asked for
                level += _behind(value, torch)


def _behind(value: Any, torch: Any) -> Iterator[Any]:
    """Yield what a function names, closes over and has for defaults, and what is in the attributes of an object."""
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, types.FunctionType):
        yield from _named_by(value)
    elif isinstance(value, torch.optim.Optimizer):
        yield from (parameter for group in value.param_groups for parameter in group["params"])
    elif not isinstance(value, torch.Tensor | types.ModuleType | type):
        owner = getattr(value, "__self__", value)  # of a compiled function, or of one that is wrapped
        if not isinstance(owner, types.ModuleType):
            yield from (owner, *getattr(owner, "__dict__", {}).values())


def _named_by(fn: types.FunctionType) -> Iterator[Any]:
    if package_of(fn) in LIBRARIES:
        return
    yield from (fn.__globals__[name] for name in _names_in(fn.__code__) if name in fn.__globals__)
    yield from (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values(), *vars(fn).values())
    for cell in fn.__closure__ or ():
        with suppress(ValueError):  # not bound yet
            yield cell.cell_contents


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_in(inner)
