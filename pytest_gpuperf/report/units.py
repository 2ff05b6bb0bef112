"""Numbers as people read them: times, relative changes, sizes, clocks, probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pytest_gpuperf.compare import reasons
from pytest_gpuperf.compare.verdict import Decision

UNKNOWN = "-"
_TIME_UNITS = (("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SIGNIFICANT_DIGITS = 4


def _significant(value: float, digits: int = _SIGNIFICANT_DIGITS) -> str:
    """`value` with `digits` significant digits, written without an exponent whatever its size."""
    if abs(value) < 1:
        return f"{value:.{digits - 1}f}"
    whole = f"{value:.0f}"
    if abs(float(whole)) >= 10**digits:
        return whole
    return f"{value:#.{digits}g}".rstrip(".")


def time(value_us: float | None) -> str:
    """Format a time in microseconds with four significant digits and its best unit, such as `57.91 us`."""
    if value_us is None or not math.isfinite(value_us):
        return UNKNOWN
    for unit, unit_us in _TIME_UNITS:
        # Compared after rounding, so that 999.96 us reads 1.000 ms and not 1000.0 us.
        text = _significant(value_us / unit_us)
        if abs(float(text)) < 1000 or unit == "s":
            return f"{text} {unit}"
    raise AssertionError("the last unit takes every time")


def _percent_number(share: float) -> str:
    percent = abs(share) * 100
    return f"{percent:.1f}" if percent < 99.95 else f"{percent:.0f}"


def _signed(share: float) -> str:
    number = _percent_number(share)
    if not float(number):
        return number
    return f"+{number}" if share > 0 else f"-{number}"


def percent(share: float | None) -> str:
    """Format a share without a sign: 0.048 is `4.8 %`."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    return f"{_percent_number(share)} %"


def limit(share: float) -> str:
    """Format a setting such as `min_effect` as exactly as it was given: 0.01 is `1 %`, 0.0125 is `1.25 %`."""
    return f"{round(share * 100, 6):g} %"


def half_width(half_width_us: float, mean_us: float) -> str:
    """Format the half-width of a mean's interval as a share of it: `0.3 %`; unknown for a mean of 0."""
    return percent(half_width_us / mean_us) if mean_us > 0 else UNKNOWN


LARGEST_IN_PERCENT = 100.0
LONGEST_FACTOR = 1e5


def change(ratio: float | None, low: float | None = None, high: float | None = None) -> str:
    """Format a ratio of times as a signed change with its interval: `+4.8 % [+3.1, +6.6]`; plus is slower.

    Where percents would take more than four digits, the ratios themselves: `x 47 [0.001, 3e+06]`.
    """
    if ratio is None or not math.isfinite(ratio):
        return UNKNOWN
    if ratio > LARGEST_IN_PERCENT or (high is not None and LARGEST_IN_PERCENT < high < math.inf):
        ends = "" if low is None or high is None else f" [{factor(low)}, {factor(high)}]"
        return f"x {factor(ratio)}{ends}"
    return f"{_signed(ratio - 1)} %{_interval(low, high, _signed)}"


def factor(ratio: float) -> str:
    """`ratio` with three significant digits, without an exponent where its digits can be read."""
    return f"{ratio:.0f}" if 100 <= ratio < LONGEST_FACTOR else f"{ratio:.3g}"


def _interval(low: float | None, high: float | None, number: Callable[[float], str]) -> str:
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f" [{number(low - 1)}, {number(high - 1)}]"


def faster_or_slower(decision: Decision) -> str:
    """Say a decision's ratio in words: `slower by 4.8 % [3.1, 6.6]`; an interval that spans 0 keeps its signs."""
    ratio, low, high = decision.ratio, decision.ratio_low, decision.ratio_high
    if ratio is None or not math.isfinite(ratio):
        return "no ratio"
    word = "slower" if ratio >= 1 else "faster"
    same_side = low is not None and high is not None and (low >= 1 or high <= 1)
    if not same_side:
        return f"{word} by {percent(ratio - 1)}{_interval(low, high, _signed)}"
    if ratio < 1:
        low, high = high, low
    return f"{word} by {percent(ratio - 1)}{_interval(low, high, _percent_number)}"


def size(value_bytes: float | None) -> str:
    """Format a number of bytes with a binary unit: `1.50 GiB`."""
    if value_bytes is None or not math.isfinite(value_bytes):
        return UNKNOWN
    value = float(value_bytes)
    for unit in _BYTE_UNITS:
        text = f"{value:.0f}" if unit == "B" else _significant(value, 3)
        if abs(float(text)) < 1024 or unit == _BYTE_UNITS[-1]:
            return f"{text} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes every size")


def clock(value_ghz: float | None) -> str:
    """Format a clock: `1.755 GHz`."""
    return f"{value_ghz:.3f} GHz" if value_ghz is not None and math.isfinite(value_ghz) else UNKNOWN


def probability(p: float | None) -> str:
    """Format a p-value: `0.031`, `2e-7`, `< 1e-300`; with `= ` or `< ` left to `p_equals`."""
    if p is None or not math.isfinite(p):
        return UNKNOWN
    if p < 1e-300:
        return "< 1e-300"
    if p >= 1e-3:
        return f"{p:.2g}"
    mantissa, exponent = f"{p:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def level(p: float) -> str:
    """Format the level that a p-value is held to: `0.001`, `0.00025`, `5e-5`."""
    return f"{p:.3g}".replace("e-0", "e-")


def p_equals(p: float | None) -> str:
    """Say a p-value with its sign: `p = 2e-7` or `p < 1e-300`."""
    text = probability(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def count(number: int, noun: str, plural: str = "") -> str:
    """Say a number of things: `1 run`, `8 runs`; `plural` is for nouns that do not just take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def span(numbers: Sequence[int]) -> str:
    """Say the range of some counts: `10`, `5-10`; unknown for none."""
    if not numbers:
        return UNKNOWN
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


def rate(share: float | None) -> str:
    """Format how often something happens: `0 %`, `0.25 %`, `97.5 %`; what is not always is never rounded to 100 %."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    return f"{share * 100:.3g} %" if share <= 0.99 else f"{math.floor(share * 1e4) / 100:g} %"


def fine_percent(share: float | None) -> str:
    """Format a share with two significant digits, or in whole percents: `0.34 %`, `250 %`."""
    return UNKNOWN if share is None or not math.isfinite(share) else reasons.fine_percent(share)
