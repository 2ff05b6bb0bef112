"""Results that are less precise than their dtype promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.tensors import MOST_ITEMS, is_floating, moved, sample, size_bytes
from pytest_gpuperf.measure.tensors import mapped

ERROR_OF_LOWER = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-2}
"""Relative errors (norm of the difference over the norm) that only arithmetic of the next lower precision has: it
rounds to a few 1e-8 for float32, 3e-4 for float16 and TF32, 2e-3 for bfloat16, and more than 1e-2 for eight bits."""
WORSE = 8.0
"""How much worse than the reference at the same dtype; other orders of summation stay below."""
NEAR, ALIKE = 2**-5, 0.8
"""Errors of an approximation that far off are alike to more than this cosine; those of eight bits are not."""
NOTICED = 0.25
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
    exact = _in_double(evidence, subject.args, subject.kwargs)
    if any(output.dtype is not torch.float64 for output in exact):
        return
    outputs = [output for output in evidence.outputs(first.output) if is_floating(output)]
    samples = zip(first.samples, first.expected_samples, (sample(t, torch) for t in exact), strict=False)
    for index, (output, (seen, expected, precise)) in enumerate(zip(outputs, samples, strict=False)):
        if seen.shape == expected.shape == precise.shape:
            errors = [relative_error(value, precise, torch) for value in (seen, expected)]
            said = lowered(str(output.dtype).removeprefix("torch."), *errors)
            if said and not _is_of_the_formula(index, seen, precise, evidence):
                yield said


def _is_of_the_formula(index: int, seen: Any, precise: Any, evidence: Evidence) -> bool:
    """Whether an error is that of another formula, or of one that cancels, and not of numbers with fewer bits.

    An approximation's error hardly changes with the inputs, where that of rounding is another for other inputs.
    What cancels changes as much as its error if the last bits of the inputs do; fewer bits do not notice these.
    """
    torch = evidence.torch
    near = _called_nearby(evidence, lambda _: NEAR)
    last_bits = _called_nearby(evidence, lambda tensor: 2 * torch.finfo(tensor.dtype).eps)
    exact_near = _in_double(evidence, *near.inputs)
    if index >= min(len(near.samples), len(last_bits.samples), len(exact_near)):
        return False
    near_here, precise_near = near.samples[index], sample(exact_near[index], torch)
    change = last_bits.samples[index] - seen
    norm = torch.linalg.vector_norm
    return alike(_beside(seen - precise, precise), _beside(near_here - precise_near, precise_near), torch) or bool(
        norm(change) > NOTICED * norm(seen - precise)
    )


def alike(one: Any, other: Any, torch: Any) -> bool:
    """Whether two errors point the same way."""
    norm = torch.linalg.vector_norm
    return bool((one * other).sum() > ALIKE * norm(one) * norm(other))


def _beside(error: Any, result: Any) -> Any:
    """Return an error without what is in proportion to the result, as where bits are cut off instead of rounded."""
    return error - (error * result).sum() / (result * result).sum() * result


@dataclass(frozen=True, slots=True)
class _Nearby:
    inputs: tuple[Any, Any]
    samples: tuple[Any, ...]


def _called_nearby(evidence: Evidence, share_of: Callable[[Any], float]) -> _Nearby:
    """Call on inputs that are a little nearer to zero, each element by another share."""

    def near(tensor: Any) -> Any:
        return moved(tensor, evidence.torch, share_of(tensor) if is_floating(tensor) else 0.0)

    args, kwargs = evidence.inputs(change=near)
    return _Nearby(evidence.inputs(change=near), evidence.watch(evidence.bound(args, kwargs)).samples)


def _in_double(evidence: Evidence, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Return the reference's outputs for inputs in double precision; none where it refuses them."""
    reference, torch = evidence.subject.reference, evidence.torch
    doubled_args, doubled_kwargs = _doubled(tuple(args), torch), _doubled(dict(kwargs), torch)
    with suppress(Exception):
        return evidence.outputs(reference(*doubled_args, **doubled_kwargs) if reference else None)
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
