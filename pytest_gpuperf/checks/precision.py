"""Results that are less precise than their dtype promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.tensors import MOST_ITEMS, is_floating, sample, size_bytes
from pytest_gpuperf.measure.tensors import mapped

ERROR_OF_LOWER = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-2}
"""Relative errors (norm of the difference over the norm) that only arithmetic of the next lower precision has: it
rounds to a few 1e-8 for float32, 3e-4 for float16 and TF32, 2e-3 for bfloat16, and more than 1e-2 for eight bits."""
WORSE = 8.0
"""How much worse than the reference at the same dtype; other orders of summation stay below."""
LONGEST_REFERENCE_S = 0.02
MOST_BYTES = {"cuda": 1 << 26, "cpu": 1 << 23}


def lowered(dtype: str, error: float, reference_error: float) -> str:
    """Say that an output's error is out of line with its dtype; empty where it is not."""
    bound = ERROR_OF_LOWER.get(dtype)
    # Where the reference is off by as much, the result is a difference that cancels, and no measure of precision.
    if bound is None or not reference_error <= bound or not error > max(bound, WORSE * reference_error):
        return ""
    return (
        f"a {dtype} output is off by {error:.2g} of its norm against float64, "
        f"the reference at the same dtype by {reference_error:.2g}"
    )


def relative_error(sample: Any, exact: Any, torch: Any) -> float:
    """Return the norm of the difference over the norm of the exact result."""
    return float(torch.linalg.vector_norm(sample - exact) / torch.linalg.vector_norm(exact))


def _look(evidence: Evidence) -> Iterator[str]:
    subject, first, torch = evidence.subject, evidence.first, evidence.torch
    reference = subject.reference
    if reference is None or reference is subject.fn or subject.works_in_place or evidence.changed:
        return
    if not _is_small(evidence) or evidence.reference_s > LONGEST_REFERENCE_S:
        return
    evidence.reserve(0, 4 * evidence.reference_s)
    exact = _in_double(evidence)
    if any(output.dtype is not torch.float64 for output in exact):
        return
    outputs = [output for output in evidence.outputs(first.output) if is_floating(output)]
    samples = zip(first.samples, first.expected_samples, (sample(t, torch) for t in exact), strict=False)
    for output, (seen, expected, precise) in zip(outputs, samples, strict=False):
        if seen.shape == expected.shape == precise.shape:
            errors = [relative_error(value, precise, torch) for value in (seen, expected)]
            if said := lowered(str(output.dtype).removeprefix("torch."), *errors):
                yield said


def _in_double(evidence: Evidence) -> tuple[Any, ...]:
    """Return the reference's outputs for inputs in double precision; none where it refuses them."""
    subject, torch = evidence.subject, evidence.torch
    args, kwargs = _doubled(tuple(subject.args), torch), _doubled(dict(subject.kwargs), torch)
    with suppress(Exception):
        return evidence.outputs(subject.reference(*args, **kwargs) if subject.reference else None)
    return ()


def _is_small(evidence: Evidence) -> bool:
    kind = "cuda" if evidence.on_gpu else "cpu"
    return 0 < size_bytes(evidence.arguments.values()) <= MOST_BYTES[kind]


def _doubled(value: Any, torch: Any) -> Any:
    """Return inputs with every real tensor in double precision."""

    def double(tensor: Any) -> Any:
        return tensor.detach().double() if tensor.is_floating_point() else tensor.detach()

    return mapped(value, double, torch, most_items=MOST_ITEMS)


CHECK = Check(
    name="precision",
    look=_look,
    why="it is faster because it computes with fewer bits than its output has",
    instead="compare with an implementation of the same precision",
)
