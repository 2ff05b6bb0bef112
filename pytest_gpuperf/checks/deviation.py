"""How far an output is from its reference's, in one number."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any


def deviation(output: object, expected: object) -> float | None:
    """Return the largest difference of any element over the largest magnitude of the reference's elements.

    That is max |output - expected| / max |expected| over all tensors, arrays and floats in them, tuples, lists and
    dicts included; the difference itself where the reference is nothing but zeros. Computed in double precision.
    Elements that are equal, infinities and NaN among them, differ by 0; any other that is not finite, by infinity.
    None where there is nothing of the kind to compare.
    """
    parts = [_part(one, other) for one, other in _leaves(output, expected)]
    if not parts:
        return None
    difference, size = max(part[0] for part in parts), max(part[1] for part in parts)
    return difference / size if size > 0 else difference


def _leaves(output: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs of what can be subtracted, converted to tensors or arrays of double precision."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(expected, torch.Tensor):
        yield from _doubles(output.detach(), expected.detach().to(output.device), torch)
    elif numpy is not None and isinstance(expected, numpy.ndarray | numpy.generic):
        if expected.dtype.kind in "fc" and expected.size:
            yield numpy.asarray(output, numpy.complex128), numpy.asarray(expected, numpy.complex128)
    elif isinstance(expected, Mapping):
        for key, value in expected.items():
            yield from _leaves(output[key], value)
    elif isinstance(expected, tuple | list):
        for one, other in zip(output, expected, strict=True):
            yield from _leaves(one, other)
    elif isinstance(expected, float | complex) and isinstance(output, int | float | complex):
        yield output, expected


def _doubles(output: Any, expected: Any, torch: Any) -> Iterator[tuple[Any, Any]]:
    if (expected.is_floating_point() or expected.is_complex()) and expected.numel():
        double = torch.complex128 if expected.is_complex() else torch.float64
        yield output.to(double), expected.to(double)


def _part(output: Any, expected: Any) -> tuple[float, float]:
    """Return the largest difference and the largest finite magnitude of the reference, of one pair."""
    if isinstance(expected, float | complex):
        return _number_part(output, expected)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(expected, torch.Tensor):
        return _array_part(output, expected, torch)
    numpy = sys.modules["numpy"]
    with numpy.errstate(invalid="ignore"):  # the difference of two infinities, which is not looked at
        return _array_part(output, expected, numpy)


def _number_part(output: complex, expected: complex) -> tuple[float, float]:
    same = output == expected or (output != output and expected != expected)
    difference = 0.0 if same else abs(output - expected)
    return _or_infinite(difference), abs(expected) if math.isfinite(abs(expected)) else 0.0


def _array_part(output: Any, expected: Any, library: Any) -> tuple[float, float]:
    same = (output == expected) | (library.isnan(output) & library.isnan(expected))
    zero = library.zeros_like(expected)
    difference = float(library.where(same, zero, output - expected).__abs__().max())
    size = float(library.where(library.isfinite(expected), expected, zero).__abs__().max())
    return _or_infinite(difference), size


def _or_infinite(difference: float) -> float:
    return math.inf if math.isnan(difference) else difference
