"""Outputs that are promises: the work is done when they are read, which is not timed."""

from __future__ import annotations

import functools
import types
from collections.abc import AsyncIterator, Awaitable, Collection, Iterator
from concurrent.futures import Future
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.launches import Observed, listed
from pytest_gpuperf.checks.places import LIBRARIES
from pytest_gpuperf.checks.sight import held
from pytest_gpuperf.checks.tensors import is_floating
from pytest_gpuperf.measure.origins import package_of

FAKE = "FakeTensor"
"""The class of tensors that a compiler passes through code in place of real ones."""


def promise(output: object) -> str:
    """Say what kind of promise a plain output is; empty where it is none."""
    if isinstance(output, Awaitable | Future) or type(output).__name__ == "Future":
        return f"the output is a {type(output).__name__}, whose result is still to come"
    if isinstance(output, Iterator | AsyncIterator):
        return f"the output is a {type(output).__name__}, which does its work when it is iterated over"
    return ""


def deferred(first_read: Observed, second_read: Observed, kind: str) -> str:
    """Say what reading an output for the first time does that reading it again does not; empty where nothing."""
    late = first_read.names - second_read.names
    return f"reading the {kind} that was returned runs {listed(late)} first" if late else ""


def _look(evidence: Evidence) -> Iterator[str]:
    output = evidence.first.output
    said = next(filter(None, map(promise, held(output))), "")
    if not said and evidence.torch is not None:
        said = _of_tensor(output, evidence) or _of_closure(output, evidence)
    if said:
        yield said


def computes_when_asked(value: Any) -> bool:
    """Whether a value is a function, or an object that can be called or poses as a tensor without being one.

    What poses as an array, such as a table of pandas, may have been computed by a library that torch knows nothing of.
    """
    if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
        return True
    is_torchs = package_of(type(value)) == "torch"
    return not is_torchs and (hasattr(type(value), "__torch_function__") or _can_be_called(value))


def _can_be_called(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def _only_holds(value: Any, given: Collection[int]) -> bool:
    """Whether an object's attributes are nothing but inputs: whatever it is asked for is still to be computed."""
    attributes: dict[str, Any] = getattr(value, "__dict__", {}) if package_of(type(value)) not in LIBRARIES else {}
    return bool(attributes) and all(id(attribute) in given for attribute in attributes.values())


def _of_closure(output: Any, evidence: Evidence) -> str:
    """Functions are honest outputs of calls that do something, such as `torch.func.vjp`."""
    if evidence.on_gpu or not any(map(is_floating, evidence.arguments.values())):
        return ""
    given = {id(tensor) for tensor in evidence.arguments.values()}
    kinds = [type(value).__name__ for value in held(output) if computes_when_asked(value) or _only_holds(value, given)]
    if not kinds or evidence.repeated.launches:
        return ""
    return f"a call runs no operation and returns a {kinds[0]}, which is still to compute something"


def _of_tensor(output: Any, evidence: Evidence) -> str:
    torch = evidence.torch
    for value in held(output):
        if isinstance(value, torch.Tensor) and (value.device.type == "meta" or type(value).__name__ == FAKE):
            return f"the output holds no values: it is a {'fake' if type(value).__name__ == FAKE else 'meta'} tensor"
    if not isinstance(output, torch.Tensor):
        return ""
    known = {type(value) for value in (*evidence.subject.args, *evidence.subject.kwargs.values())}
    if package_of(type(output)) == "torch" or type(output) in known:
        return ""
    # A new one, since the verification has read the first.
    new = evidence.repeated.output
    first, second = (evidence.watch(functools.partial(torch.add, new, 0)) for _ in range(2))
    return deferred(first, second, kind=type(new).__name__)


CHECK = Check(
    name="lazy",
    look=_look,
    why="what is timed is the promise, not the work",
    instead="return the result itself",
)
