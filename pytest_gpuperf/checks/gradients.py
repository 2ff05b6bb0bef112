"""Gradients that pile up from call to call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence

TOLERANCE = 1e-2


def piling_up(before: Any, middle: Any, after: Any, torch: Any) -> bool:
    """Whether two calls running added the same to a gradient that was there."""
    first, second = (middle - before).double(), (after - middle).double()
    size = torch.linalg.vector_norm(first)
    return bool(size > 0 and torch.linalg.vector_norm(first - second) <= TOLERANCE * size)


def _look(evidence: Evidence) -> Iterator[str]:
    leaves = _leaves(evidence)
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
        elif isinstance(value, torch.Tensor):
            leaves[f"a tensor of {tuple(value.shape)}"] = value
    return {name: leaf for name, leaf in leaves.items() if leaf.requires_grad and leaf.is_leaf}


def _in_sight(evidence: Evidence) -> Iterator[Any]:
    subject = evidence.subject
    yield from (*subject.args, *subject.kwargs.values(), subject.fn, getattr(subject.fn, "__self__", None))
    for cell in getattr(subject.fn, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue


CHECK = Check(
    name="gradients",
    look=_look,
    why="every call but the first does an extra addition, and the values grow",
    instead="set .grad to None in the call (`zero_grad(set_to_none=True)`)",
)
