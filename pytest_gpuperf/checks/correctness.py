"""Whether a callable's output agrees with its reference's, before a single trial is timed."""

from __future__ import annotations

import cmath
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

NUMPY_TOLERANCES = {"float16": (1e-3, 1e-5), "float32": (1.3e-6, 1e-5), "complex64": (1.3e-6, 1e-5)}
"""(rtol, atol) by dtype, the same as `torch.testing.assert_close` has for tensors."""
DOUBLE_TOLERANCES = (1e-7, 1e-7)


def verify(
    output: object, expected: object, *, rtol: float | None = None, atol: float | None = None, place: str = "output"
) -> None:
    """Compare what a callable returned with what its reference returned; tuples, lists and dicts item by item.

    Tensors go through `torch.testing.assert_close` (dtypes must agree, devices need not, NaN equals NaN), arrays and
    floats are compared alike, anything else by `==`. `rtol` and `atol` go together; without them they follow the dtype.

    Raises `AssertionError` that names the place and the difference; `ValueError` for one tolerance without the other.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol go together: give both, or neither for the dtype's own")
    tolerances = None if rtol is None or atol is None else (rtol, atol)
    _Comparison(tolerances).compare(output, expected, place)


@dataclass(frozen=True, slots=True)
class _Comparison:
    tolerances: tuple[float, float] | None

    def compare(self, output: Any, expected: Any, place: str) -> None:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and _either(output, expected, torch.Tensor):
            self._tensors(output, expected, place, torch)
        elif numpy is not None and _either(output, expected, numpy.ndarray | numpy.generic):
            self._arrays(output, expected, place, numpy)
        elif isinstance(expected, Mapping):
            self._mappings(output, expected, place)
        elif isinstance(expected, tuple | list):
            self._sequences(output, expected, place)
        elif isinstance(expected, float | complex) and isinstance(output, int | float | complex):
            self._numbers(output, expected, place)
        elif not _equal(output, expected):
            _differs(place, f"{_shown(output)} instead of {_shown(expected)}")

    def _tensors(self, output: Any, expected: Any, place: str, torch: Any) -> None:
        _same_type(output, expected, torch.Tensor, place)
        rtol, atol = self.tolerances or (None, None)
        try:
            torch.testing.assert_close(output, expected, rtol=rtol, atol=atol, equal_nan=True, check_device=False)
        except AssertionError as error:
            _differs(place, str(error))

    def _arrays(self, output: Any, expected: Any, place: str, numpy: Any) -> None:
        _same_type(output, expected, numpy.ndarray | numpy.generic, place)
        if output.dtype != expected.dtype or output.shape != expected.shape:
            _differs(place, f"{output.dtype}{list(output.shape)} instead of {expected.dtype}{list(expected.shape)}")
        if expected.dtype.kind not in "fc":
            return self._exact_arrays(output, expected, place)
        rtol, atol = self.tolerances or NUMPY_TOLERANCES.get(expected.dtype.name, DOUBLE_TOLERANCES)
        try:
            numpy.testing.assert_allclose(output, expected, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            _differs(place, str(error).strip())
        return None

    def _exact_arrays(self, output: Any, expected: Any, place: str) -> None:
        unequal = int((output != expected).sum())
        if unequal:
            _differs(place, f"{unequal} elements are not equal")

    def _mappings(self, output: Any, expected: Mapping[Any, Any], place: str) -> None:
        _same_type(output, expected, Mapping, place)
        if output.keys() != expected.keys():
            _differs(place, f"keys {_shown(list(output))} instead of {_shown(list(expected))}")
        for key, value in expected.items():
            self.compare(output[key], value, f"{place}[{key!r}]")

    def _sequences(self, output: Any, expected: Any, place: str) -> None:
        _same_type(output, expected, tuple | list, place)
        if len(output) != len(expected):
            _differs(place, f"{len(output)} items instead of {len(expected)}")
        for index, (item, wanted) in enumerate(zip(output, expected, strict=True)):
            self.compare(item, wanted, f"{place}[{index}]")

    def _numbers(self, output: complex, expected: complex, place: str) -> None:
        rtol, atol = self.tolerances or DOUBLE_TOLERANCES
        both_nan = cmath.isnan(output) and cmath.isnan(expected)
        close = cmath.isfinite(expected) and abs(output - expected) <= atol + rtol * abs(expected)
        if not (both_nan or output == expected or close):
            _differs(place, f"{output!r} instead of {expected!r} (rtol {rtol:g}, atol {atol:g})")


def _either(output: object, expected: object, kind: Any) -> bool:
    return isinstance(output, kind) or isinstance(expected, kind)


def _same_type(output: object, expected: object, kind: Any, place: str) -> None:
    if not (isinstance(output, kind) and isinstance(expected, kind)):
        _differs(place, f"a {type(output).__name__} instead of a {type(expected).__name__}")


def _equal(output: object, expected: object) -> bool:
    return output is expected or bool(output == expected)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _differs(place: str, difference: str) -> NoReturn:
    raise AssertionError(f"{place} differs from the reference's: {difference}") from None
