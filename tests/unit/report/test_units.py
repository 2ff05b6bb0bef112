"""Numbers as people read them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.compare.verdict import Decision
from pytest_gpuperf.report import units

_FACTORS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


@pytest.mark.parametrize(
    ("value_us", "expected"),
    [
        (57.9, "57.90 us"),
        (0.0, "0.000 ns"),
        (0.0004, "0.400 ns"),
        (0.35, "350.0 ns"),
        (0.99994, "999.9 ns"),
        (0.99996, "1.000 us"),
        (9.9996, "10.00 us"),
        (999.96, "1.000 ms"),
        (1534.5, "1.534 ms"),
        (2.5e6, "2.500 s"),
        (123456789e6, "123456789 s"),
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "-"),
    ],
)
def test_time(value_us: float | None, expected: str) -> None:
    assert units.time(value_us) == expected


@given(st.floats(min_value=1e-3, max_value=1e12))
def test_time_reads_back_to_four_digits(value_us: float) -> None:
    text = units.time(value_us)
    number, unit = text.split()
    assert float(number) * _FACTORS[unit] == pytest.approx(value_us, rel=5.1e-4)
    assert re.fullmatch(r"[0-9]+(\.[0-9]+)?", number)
    assert unit == "s" or float(number) < 1000
    assert len(number) <= 6 or unit == "s"


@given(st.floats(min_value=1e-3, max_value=9e8), st.floats(min_value=1.002, max_value=1.1))
def test_a_longer_time_never_reads_shorter(value_us: float, factor: float) -> None:
    def read(text: str) -> float:
        return float(text.split()[0]) * _FACTORS[text.split()[1]]

    assert read(units.time(value_us)) <= read(units.time(value_us * factor))


@pytest.mark.parametrize(
    ("ratio", "low", "high", "expected"),
    [
        (1.0483, 1.031, 1.0662, "+4.8 % [+3.1, +6.6]"),
        (0.93, 0.9, 1.02, "-7.0 % [-10.0, +2.0]"),
        (1.0, 0.9996, 1.0004, "0.0 % [0.0, 0.0]"),
        (7.4, 7.3, 7.5, "+640 % [+630, +650]"),
        (47.1, 0.001, 3.4e6, "x 47.1 [0.001, 3.4e+06]"),
        (0.107, 1e-5, 1750.0, "x 0.107 [1e-05, 1750]"),
        (942.2, 930.1, 954.4, "x 942 [930, 954]"),
        (250.0, None, None, "x 250"),
        (1.02, None, None, "+2.0 %"),
        (1.02, math.nan, 1.03, "+2.0 %"),
        (None, None, None, "-"),
        (math.inf, None, None, "-"),
    ],
)
def test_change(ratio: float | None, low: float | None, high: float | None, expected: str) -> None:
    assert units.change(ratio, low, high) == expected


@given(st.floats(min_value=1e-3, max_value=1e3))
def test_the_sign_of_a_change_is_its_direction(ratio: float) -> None:
    text = units.change(ratio)
    assert text.startswith("+") <= (ratio > 1)
    assert text.startswith("-") <= (ratio < 1)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "expected"),
    [
        (1.0483, 1.031, 1.0662, "slower by 4.8 % [3.1, 6.6]"),
        (0.91, 0.9, 0.92, "faster by 9.0 % [8.0, 10.0]"),
        (1.01, 0.99, 1.03, "slower by 1.0 % [-1.0, +3.0]"),
        (0.99, 0.97, 1.01, "faster by 1.0 % [-3.0, +1.0]"),
        (1.05, None, None, "slower by 5.0 %"),
        (None, None, None, "no ratio"),
    ],
)
def test_faster_or_slower(ratio: float | None, low: float | None, high: float | None, expected: str) -> None:
    decision = Decision(verdict="unchanged", reason="", ratio=ratio, ratio_low=low, ratio_high=high)
    assert units.faster_or_slower(decision) == expected


@pytest.mark.parametrize(
    ("value_bytes", "expected"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1023.9 * 1024, "1.00 MiB"),
        (1020 * 1024, "1020 KiB"),
        (64 << 20, "64.0 MiB"),
        (3 << 30, "3.00 GiB"),
        (None, "-"),
    ],
)
def test_size(value_bytes: float | None, expected: str) -> None:
    assert units.size(value_bytes) == expected


@given(st.integers(min_value=0, max_value=1 << 60))
def test_size_reads_back_to_three_digits(value_bytes: int) -> None:
    number, unit = units.size(value_bytes).split()
    power = ("B", "KiB", "MiB", "GiB", "TiB", "PiB").index(unit)
    assert float(number) * 1024**power == pytest.approx(value_bytes, rel=5.1e-3)


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (2.1e-7, "p = 2e-7"),
        (0.031, "p = 0.031"),
        (1.0, "p = 1"),
        (0.001, "p = 0.001"),
        (0.0, "p < 1e-300"),
        (9.6e-8, "p = 1e-7"),
        (None, "p = -"),
    ],
)
def test_p_equals(p: float | None, expected: str) -> None:
    assert units.p_equals(p) == expected


@pytest.mark.parametrize(("p", "expected"), [(0.001, "0.001"), (0.05 / 200, "0.00025"), (0.05 / 1000, "5e-5")])
def test_level(p: float, expected: str) -> None:
    assert units.level(p) == expected


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, "0 %"), (1.0, "100 %"), (0.9999, "99.99 %"), (0.99999, "99.99 %"), (0.0025, "0.25 %")]
)
def test_rate_keeps_always_and_nearly_always_apart(share: float, expected: str) -> None:
    assert units.rate(share) == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.0, "0 %"),
        (0.00341, "0.34 %"),
        (0.266, "27 %"),
        (0.9949, "99 %"),
        (0.996, "100 %"),
        (2.504, "250 %"),
        (41.3, "4130 %"),
        (None, "-"),
        (math.inf, "-"),
    ],
)
def test_a_fine_percentage_has_no_exponent_however_large(share: float | None, expected: str) -> None:
    assert units.fine_percent(share) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.01, "1 %"), (0.0125, "1.25 %"), (0.07, "7 %"), (0.0, "0 %")])
def test_limit_is_as_exact_as_the_setting(share: float, expected: str) -> None:
    assert units.limit(share) == expected


def test_a_half_width_of_nothing_is_unknown() -> None:
    assert units.half_width(0.1, 0.0) == "-"


def test_counts() -> None:
    assert [units.count(1, "run"), units.count(2, "run"), units.count(0, "entry", "entries")] == [
        "1 run",
        "2 runs",
        "0 entries",
    ]


def test_span() -> None:
    assert [units.span([]), units.span([10, 10]), units.span([5, 10, 7])] == ["-", "10", "5-10"]
