"""What a test states that cannot be measured, told before anything is called; `where` is the test's node id."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_gpuperf.stated import finite_number, positive_number, shown

if TYPE_CHECKING:
    from pytest_gpuperf.calls import BenchmarkCall


def refuse_impossible_call(where: str, call: BenchmarkCall) -> None:
    """Raise TypeError or ValueError for a call that cannot be made or measured."""
    _refuse_what_is_no_plain_callable(where, call.fn)
    _refuse_wrong_types(where, call)
    if call.setup is not None and (call.args or call.kwargs):
        raise TypeError(f"{where}: gpubench takes either setup= or args and kwargs, not both")
    if call.mode not in ("forward", "backward", "both"):
        raise ValueError(f"{where}: mode must be forward, backward or both, not {call.mode!r}")
    _refuse_no_positive_number(where, "bytes_moved", call.bytes_moved)
    _refuse_no_positive_number(where, "flops", call.flops)


def refuse_what_is_no_comparison(
    where: str, implementations: Mapping[str, object], reference: object, error: object
) -> None:
    """Raise TypeError or ValueError for what `gpubench.compare` cannot compare."""
    if not isinstance(implementations, Mapping):
        raise TypeError(
            f"{where}: gpubench.compare takes a dict of functions by name, not {type(implementations).__name__}"
        )
    if len(implementations) < 2:
        raise ValueError(f"{where}: gpubench.compare needs two implementations or more")
    if error is not None and not callable(error):
        raise TypeError(f"{where}: error must be a function to call, not {type(error).__name__}")
    if error is not None and reference is None:
        raise TypeError(f"{where}: error= measures the distance to a reference: give reference= too")


def refuse_impossible_tolerances(where: str, rtol: object, atol: object, *, has_reference: bool) -> None:
    """Raise where an output would be compared by tolerances that it cannot miss, by one of two, or not at all."""
    if rtol is None and atol is None:
        return
    if not has_reference:
        raise TypeError(f"{where}: rtol and atol are for the comparison with a reference: give reference= too")
    if rtol is None or atol is None:
        raise ValueError(f"{where}: rtol and atol go together: give both, or neither for the dtype's own tolerances")
    for what, value in (("rtol", rtol), ("atol", atol)):
        number = finite_number(value)
        if number is None or number < 0:
            raise ValueError(f"{where}: {what} must be a number from 0, not {shown(value)}")


def refuse_what_is_no_function_of_size(where: str, what: str, stated: object) -> None:
    """Raise TypeError for an argument of `gpubench.sweep` that is no function."""
    if stated is not None and not callable(stated):
        raise TypeError(f"{where}: {what} must be a function of the size, such as lambda n: 8 * n, not {shown(stated)}")


def is_arguments(value: object) -> bool:
    """Return whether the value can only be meant as positional arguments."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _refuse_what_is_no_plain_callable(where: str, fn: object) -> None:
    if not callable(fn):
        raise TypeError(f"{where}: gpubench needs a function to call, not {type(fn).__name__}")
    lazy = inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)
    if lazy:
        raise TypeError(
            f"{where}: calling {getattr(fn, '__name__', 'the function')} only creates a coroutine or "
            "generator and does no work; wrap it in a function that runs it to its end"
        )


def _refuse_wrong_types(where: str, call: BenchmarkCall) -> None:
    # Almost everything can be spread: a forgotten `(x,)` would call `fn` with the rows of a tensor.
    if not is_arguments(call.args):
        raise TypeError(
            f"{where}: args must be a tuple or list of fn's positional arguments, such as (x,), "
            f"not {type(call.args).__name__}"
        )
    if not isinstance(call.kwargs, Mapping):
        raise TypeError(f"{where}: kwargs must be a dict, not {type(call.kwargs).__name__}")
    for what, value in (("setup", call.setup), ("reference", call.reference)):
        if value is not None and not callable(value):
            raise TypeError(f"{where}: {what} must be a function to call, not {type(value).__name__}")


def _refuse_no_positive_number(where: str, what: str, value: float | None) -> None:
    if value is not None and positive_number(value) is None:
        raise ValueError(f"{where}: {what} must be a positive number, not {shown(value)}")
