from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest

from pytest_gpuperf.stated import LARGEST_STATED, finite_number, positive_number, shown


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (-2.5, -2.5),
        (0, 0.0),
        (numpy.int64(3), 3.0),
        (numpy.float16(0.5), 0.5),
        (Fraction(1, 4), 0.25),
        (LARGEST_STATED, LARGEST_STATED),
    ],
)
def test_numbers(value, number):
    assert finite_number(value) == number
    assert type(finite_number(value)) is float
    assert positive_number(value) == (number if number > 0 else None)


@pytest.mark.parametrize(
    "value",
    [True, numpy.bool_(True), None, "3", 1j, math.nan, math.inf, 10**400, 1.1e30, -1.1e30, Decimal(3), numpy.ones(1)],
    ids=range(12),
)
def test_what_is_no_number(value):
    assert finite_number(value) is None
    assert positive_number(value) is None


class Rude:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        ("x" * 100, "'" + "x" * 78 + "…"),
        (10**5000, "a value of type int"),
        (Rude(), "a value of type Rude"),
    ],
    ids=range(4),
)
def test_any_value_can_be_shown(value, text):
    assert shown(value) == text
