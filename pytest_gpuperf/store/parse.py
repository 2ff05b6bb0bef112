"""Strict JSON: UTF-8, finite numbers, no key twice; everything else is a `StoreError` that says where."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from pytest_gpuperf.store.errors import BrokenFileError, EmptyFileError, TruncatedFileError

_REMEDY = "Restore it from version control, or remove it and measure again"
_CONFLICT_REMEDY = (
    "Take one side as a whole (git checkout --ours or --theirs, with the file's path) and add the other's runs to it, "
    "by 'gpuperf accept SESSION --extend' where its session record is there, else by pytest --gpuperf-extend-baseline"
)


def parse(data: bytes, where: str) -> Any:
    """The JSON value in a file's content. Raises EmptyFileError, TruncatedFileError or BrokenFileError."""
    if not data.strip(b" \t\r\n\0"):
        raise EmptyFileError(where, f"is empty ({len(data)} bytes, none of them text)", _REMEDY)
    try:
        text = data.decode("utf-8")
        return json.loads(
            text, object_pairs_hook=_unique, parse_float=_finite, parse_int=_whole, parse_constant=_no_constant
        )
    except json.JSONDecodeError as error:
        raise _syntax_error(error, where) from error
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(where, f"is not strict JSON ({error})", _REMEDY) from error


def _syntax_error(error: json.JSONDecodeError, where: str) -> TruncatedFileError | BrokenFileError:
    # Looked for only in what is no JSON: within a string such a line cannot stand.
    if conflict := re.search(r"^(<{7}|={7}|>{7})( |$)", error.doc, re.MULTILINE):
        line = error.doc.count("\n", 0, conflict.start()) + 1
        return BrokenFileError(where, f"holds a merge conflict that is not resolved (line {line})", _CONFLICT_REMEDY)
    text = error.doc.rstrip()
    place = f"line {error.lineno}, column {error.colno}"
    if error.pos >= len(text) or not text.endswith("}"):
        return TruncatedFileError(where, f"is cut off: the JSON text is not complete ({error.msg}, {place})", _REMEDY)
    return BrokenFileError(where, f"is not JSON ({error.msg}, {place})", _REMEDY)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f'"{twice}" is there twice in one object')
    return members


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _whole(text: str) -> int:
    if len(text) > 19:  # beyond 64 bits nothing we store is meant, and long ones take quadratic time to read
        raise ValueError(f"the number {text[:40]} is out of range")
    return int(text)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
