"""Numbers that a test states: of whatever kind Python and NumPy have, and whether they can be meant."""

from __future__ import annotations

import math
import numbers

LARGEST_STATED = 1e30
"""Nothing counts more bytes, operations or elements; what is derived from up to this many stays finite."""


def positive_number(value: object) -> float | None:
    """Return a positive, finite number as a float; None where `value` is anything else (True is no number)."""
    number = finite_number(value)
    return number if number is not None and number > 0 else None


def finite_number(value: object) -> float | None:
    """Return a real number up to `LARGEST_STATED` as a float, NumPy's scalars among them; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # of an int
        return None
    return number if math.isfinite(number) and abs(number) <= LARGEST_STATED else None


def shown(value: object) -> str:
    """Return what an error message quotes of a value, whatever its `repr` does."""
    try:
        text = repr(value)
    except Exception:  # an int of thousands of digits, or a class of the user's
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:79]}…"
