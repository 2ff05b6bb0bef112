"""Which module a function or a class is from, whatever its `__module__` has been set to."""

from __future__ import annotations

import types
from typing import Any


def module_of(value: Any) -> str:
    """Return the dotted name of the module that a function or a class is from; empty where that cannot be told.

    A function's `__module__` is another's where it wraps that one, and anything where somebody has set it; its globals
    are the module's own.
    """
    function = getattr(value, "__func__", value)  # of a bound method
    if isinstance(function, types.FunctionType):
        name = function.__globals__.get("__name__")
    else:
        name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


def package_of(value: Any) -> str:
    """Return the first part of that name."""
    return module_of(value).partition(".")[0]


def attribute_of(value: object, name: str, default: Any = None) -> Any:
    """Return an attribute, or a default where an object refuses to be asked, be it with an error of its own."""
    try:
        return getattr(value, name, default)
    except Exception:
        return default
