"""JSON text that reads well in a git diff: sorted, short, strict, and the same again when loaded and saved."""

from __future__ import annotations

import json
import math
from typing import Any, TypeAlias

Layout: TypeAlias = "dict[str, Layout] | None"
"""Which containers are spread over lines: None is written on one line; a dict spreads the container and gives the
layout of its members by key, those under "*" for all others."""

_EXACT_FIELDS = frozenset({"bytes_moved", "flops"})  # part of a benchmark's identity, compared for equality
_LEFT_OUT_EMPTY = frozenset({"device"})
_LOGARITHMS = frozenset({"log_median", "locations", "batches"})  # their absolute error is the time's relative one
_LOGARITHM_DECIMALS = 5
_SIGNIFICANT_DIGITS = 6
# Of what is only shown, or a spread, fewer digits mean something.
_FEWER_DIGITS = {
    **dict.fromkeys(("min_us", "p5_us", "p95_us", "clock_ghz"), 5),
    **dict.fromkeys(("sd_us", "half_width_us", "effective_trials", "lag1_autocorrelation", "resolution_us"), 4),
}
_LARGEST_SHORT_INTEGER = 1e15


def storable(value: Any, field: str = "", path: str = "$") -> Any:
    """`value` with its numbers rounded to what is stored, lone surrogates escaped and empty device states dropped.

    Raises ValueError, with the JSON path, for NaN and infinities.
    """
    if isinstance(value, float):
        return _rounded(value, field, path)
    if isinstance(value, str):
        return _unicode(value)
    if isinstance(value, dict):
        members = {_unicode(key): storable(member, key, f"{path}.{key}") for key, member in value.items()}
        return {key: member for key, member in members.items() if key not in _LEFT_OUT_EMPTY or member}
    if isinstance(value, list | tuple):
        return [storable(member, field, f"{path}[{index}]") for index, member in enumerate(value)]
    return value


def text_of(value: Any, layout: Layout) -> str:
    """Strict JSON of `value` (as `storable` returned it), spread over lines as `layout` says."""
    return _render(value, layout, "") + "\n"


def _rounded(value: float, field: str, path: str) -> float | int:
    if not math.isfinite(value):
        raise ValueError(f"{path} is {value}")
    if field in _LOGARITHMS:
        value = round(value, _LOGARITHM_DECIMALS)
    elif field not in _EXACT_FIELDS:
        rounded = float(f"{value:.{_FEWER_DIGITS.get(field, _SIGNIFICANT_DIGITS)}g}")
        value = rounded if math.isfinite(rounded) else value
    return int(value) if value.is_integer() and abs(value) < _LARGEST_SHORT_INTEGER else value


def _unicode(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _render(value: Any, layout: Layout, indent: str) -> str:
    if layout is None or not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
    inner = indent + " "
    if isinstance(value, list):
        members = [_render(member, layout.get("*"), inner) for member in value]
        return _lines("[", members, "]", indent)
    members = [
        f"{json.dumps(key, ensure_ascii=False)}: {_render(member, layout.get(key, layout.get('*')), inner)}"
        for key, member in value.items()
    ]
    return _lines("{", members, "}", indent)


def _lines(opening: str, members: list[str], closing: str, indent: str) -> str:
    inner = f"\n{indent} "
    return f"{opening}{inner}{f',{inner}'.join(members)}\n{indent}{closing}"
