"""Triton's interpreter is for testing: a kernel that runs in it is never timed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from pytest_gpuperf.measure.errors import InterpreterTimedError


@contextmanager
def interpreter_forbidden() -> Iterator[None]:
    """Raise `InterpreterTimedError` at the first Triton kernel that the body runs in the interpreter.

    It goes by the kernels themselves and not by TRITON_INTERPRET: a kernel keeps the mode it was defined under.
    Triton imports its interpreter only when a kernel is defined for it, so nothing is imported here.
    """
    interpreter = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None:
        yield
        return
    function: Any = interpreter.InterpretedFunction
    original = function.run

    def refuse(self: Any, *_args: object, **_kwargs: object) -> NoReturn:
        raise InterpreterTimedError(self.fn.__name__)

    function.run = refuse
    try:
        yield
    finally:
        function.run = original
