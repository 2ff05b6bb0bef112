"""Gradients that pile up from call to call."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.lazy import held
from pytest_gpuperf.checks.tensors import size_bytes

TOLERANCE = 1e-2
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
    """Yield what a call works with: its arguments, what its function closes over or names, and the object it is of."""
    subject = evidence.subject
    fn: Any = subject.fn
    bound: tuple[Any, ...] = ()
    while isinstance(fn, functools.partial):
        fn, bound = fn.func, (*bound, *fn.args, *fn.keywords.values())
    owner = getattr(fn, "__self__", fn)
    for value in (*subject.args, *subject.kwargs.values(), *bound, owner, *_named_by(fn), *_attributes(owner)):
        yield from held(value)


def _named_by(fn: Any) -> Iterator[Any]:
    code = getattr(fn, "__code__", None)
    known = getattr(fn, "__globals__", {})
    yield from (known[name] for name in getattr(code, "co_names", ()) if name in known)
    for cell in getattr(fn, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue


def _attributes(owner: Any) -> Iterable[Any]:
    is_module = isinstance(owner, types.ModuleType)  # a compiled function's `__self__`
    return () if is_module else getattr(owner, "__dict__", {}).values()


CHECK = Check(
    name="gradients",
    look=_look,
    why="every call but the first does an extra addition, and the values grow",
    instead="set .grad to None in the call (`zero_grad(set_to_none=True)`)",
)
