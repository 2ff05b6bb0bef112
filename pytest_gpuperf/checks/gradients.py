"""Gradients that pile up from call to call."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.lazy import held
from pytest_gpuperf.checks.places import LIBRARIES
from pytest_gpuperf.checks.tensors import size_bytes
from pytest_gpuperf.measure.origins import package_of

TOLERANCE = 1e-2
DEPTH, MOST_VALUES = 5, 500
"""How far to look for parameters, and at how many values in each step."""
COPIES = 4
"""Of each gradient, or differences of them, that are held at once."""


def piling_up(before: Any, middle: Any, after: Any, torch: Any) -> bool:
    """Whether two calls running added the same to a gradient that was there."""
    first, second = (middle - before).double(), (after - middle).double()
    size = torch.linalg.vector_norm(first)
    return bool(size > 0 and torch.linalg.vector_norm(first - second) <= TOLERANCE * size)


def _look(evidence: Evidence) -> Iterator[str]:
    leaves = _leaves(evidence)
    evidence.reserve_bytes(COPIES * size_bytes(leaf.grad for leaf in leaves.values() if leaf.grad is not None))
    before = _gradients(leaves)
    if not before:
        return
    middle = _gradients(_after_a_call(leaves, evidence))
    after = _gradients(_after_a_call(leaves, evidence))
    for name, gradient in before.items():
        if name in middle and name in after and piling_up(gradient, middle[name], after[name], evidence.torch):
            yield f"each call adds to the gradient of {name}"
            return


def _after_a_call(leaves: Mapping[str, Any], evidence: Evidence) -> Mapping[str, Any]:
    evidence.reserve(1)
    evidence.bound(*evidence.subject.inputs())()
    return leaves


def _gradients(leaves: Mapping[str, Any]) -> dict[str, Any]:
    return {name: leaf.grad.detach().clone() for name, leaf in leaves.items() if leaf.grad is not None}


def _leaves(evidence: Evidence) -> dict[str, Any]:
    """Return the tensors that gradients are gathered in: arguments, and the parameters of modules in sight."""
    torch = evidence.torch
    leaves = dict(evidence.arguments)
    for value in _in_sight(evidence):
        if isinstance(value, torch.nn.Module):
            leaves.update(value.named_parameters())
        elif isinstance(value, torch.Tensor) and not any(value is leaf for leaf in leaves.values()):
            leaves[f"a tensor of {tuple(value.shape)}"] = value
    return {name: leaf for name, leaf in leaves.items() if leaf.requires_grad and leaf.is_leaf}


def _in_sight(evidence: Evidence) -> Iterator[Any]:
    """Yield what a call may work with: what its arguments, functions and objects hold, and what these hold in turn."""
    subject = evidence.subject
    level: list[Any] = [*subject.args, *subject.kwargs.values(), subject.fn]
    seen: dict[int, Any] = {}
    for _ in range(DEPTH):
        new = {id(value): value for outer in level for value in held(outer) if id(value) not in seen}
        seen |= new
        yield from new.values()
        level = [inner for value in islice(new.values(), MOST_VALUES) for inner in _behind(value, evidence.torch)]


def _behind(value: Any, torch: Any) -> Iterator[Any]:
    """Yield what a function names, closes over and has for defaults, or what is in the attributes of an object."""
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
        yield from () if isinstance(owner, types.ModuleType) else getattr(owner, "__dict__", {}).values()


def _named_by(fn: types.FunctionType) -> Iterator[Any]:
    if package_of(fn) in LIBRARIES:
        return
    yield from (fn.__globals__[name] for name in _names_in(fn.__code__) if name in fn.__globals__)
    yield from (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())
    for cell in fn.__closure__ or ():
        with suppress(ValueError):  # not bound yet
            yield cell.cell_contents


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _names_in(inner)


CHECK = Check(
    name="gradients",
    look=_look,
    why="every call but the first does an extra addition, and the values grow",
    instead="set .grad to None in the call (`zero_grad(set_to_none=True)`)",
)
