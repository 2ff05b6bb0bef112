"""Gradients that pile up from call to call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.sight import in_sight
from pytest_gpuperf.checks.tensors import size_bytes, write_past_autograd

TOLERANCE = 1e-2
OF_ALL_CALLS = 0.5
COPIES = 6
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
            added = after[name] - middle[name]
            if _is_of_all_calls(gradient, added, evidence) and _is_added_to(leaves[name], added, evidence):
                yield f"each call adds to the gradient of {name}"
            return


def _is_of_all_calls(gradient: Any, added: Any, evidence: Evidence) -> bool:
    """Whether a gradient is as large as if no call had cleared it: accumulating over a few calls is no accident."""
    norm, calls = evidence.torch.linalg.vector_norm, evidence.timed.record.trials if evidence.timed is not None else 0
    return bool(norm(gradient.double()) >= OF_ALL_CALLS * calls * norm(added.double()))


def _is_added_to(leaf: Any, added: Any, evidence: Evidence) -> bool:
    """Whether a call adds to what is there: made zero before it, a gradient is what one call adds.

    One that is worked out anew may change as evenly, as where weights are trained in steps of one length.
    """
    torch, old = evidence.torch, leaf.grad
    if old is None or old.is_sparse:
        return False
    saved = old.detach().clone()
    write_past_autograd(old, torch.zeros_like(old), torch)
    try:
        now = _gradients(_after_a_call({"": leaf}, evidence)).get("", saved)
    finally:
        write_past_autograd(old, saved, torch)
    return now.shape == added.shape and piling_up(torch.zeros_like(added), added, added + now, torch)


def _after_a_call(leaves: Mapping[str, Any], evidence: Evidence) -> Mapping[str, Any]:
    evidence.reserve(1)
    evidence.bound(*evidence.subject.inputs())()
    return leaves


def _gradients(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies; sparse ones, of embeddings, in full."""
    found = {name: leaf.grad.detach() for name, leaf in leaves.items() if leaf.grad is not None}
    return {name: gradient.to_dense() if gradient.is_sparse else gradient.clone() for name, gradient in found.items()}


def _leaves(evidence: Evidence) -> dict[str, Any]:
    """Return the tensors that gradients are gathered in: arguments, and the parameters of modules in sight."""
    torch = evidence.torch
    leaves = dict(evidence.arguments)
    for value in in_sight(evidence.subject, torch):
        if isinstance(value, torch.nn.Module):
            leaves.update(value.named_parameters())
        elif isinstance(value, torch.Tensor) and not any(value is leaf for leaf in leaves.values()):
            leaves[f"a tensor of {tuple(value.shape)}"] = value
    return {name: leaf for name, leaf in leaves.items() if leaf.requires_grad and leaf.is_leaf}


CHECK = Check(
    name="gradients",
    look=_look,
    why="every call but the first does an extra addition, and the values grow",
    instead="set .grad to None in the call (`zero_grad(set_to_none=True)`)",
)
