"""Outputs that are promises: the work is done when they are read, which is not timed."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from concurrent.futures import Future
from typing import Any

from pytest_gpuperf.checks.check import Check
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.launches import Observed, listed


def promise(output: object) -> str:
    """Say what kind of promise a plain output is; empty where it is none."""
    if isinstance(output, Awaitable | Future) or type(output).__name__ == "Future":
        return f"the output is a {type(output).__name__}, whose result is still to come"
    if isinstance(output, Iterator):
        return f"the output is a {type(output).__name__}, which does its work when it is iterated over"
    return ""


def deferred(first_read: Observed, second_read: Observed, kind: str) -> str:
    """Say what reading an output for the first time does that reading it again does not; empty where nothing."""
    late = first_read.names - second_read.names
    return f"reading the {kind} that was returned runs {listed(late)} first" if late else ""


def _look(evidence: Evidence) -> Iterator[str]:
    output = evidence.first.output
    said = promise(output) or (_of_tensor(output, evidence) if evidence.torch is not None else "")
    if said:
        yield said


def _of_tensor(output: Any, evidence: Evidence) -> str:
    torch = evidence.torch
    if not isinstance(output, torch.Tensor):
        return ""
    if output.device.type == "meta":
        return "the output is a meta tensor, which has no values"
    known = {type(value) for value in (*evidence.subject.args, *evidence.subject.kwargs.values())}
    if type(output).__module__.split(".")[0] == "torch" or type(output) in known:
        return ""
    # A new one, since the verification has read the first.
    new = evidence.repeated.output
    first, second = (evidence.watch(lambda: torch.add(new, 0)) for _ in range(2))
    return deferred(first, second, kind=type(new).__name__)


CHECK = Check(
    name="lazy",
    look=_look,
    why="what is timed is the promise, not the work",
    instead="return the result itself",
)
