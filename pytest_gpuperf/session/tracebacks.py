"""The traceback of a failing call: the test's frames and the callable's, without those that time it."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

import pytest

from pytest_gpuperf.measure.origins import module_of

_PACKAGE = "pytest_gpuperf."
_SAID_TO_USERS = (TypeError, ValueError, AssertionError)


def without_own_frames(excinfo: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    """Return the error without this package's frames, unless it arose in them and nobody was meant to see it."""
    error = excinfo.value
    entries = list(_entries(error.__traceback__))
    kept = [entry for entry in entries if not _is_own(entry)]
    meant = module_of(type(error)).startswith(_PACKAGE) or isinstance(error, _SAID_TO_USERS)
    if not kept or len(kept) == len(entries) or not (meant or kept[-1] is entries[-1]):
        return excinfo
    # pytest cuts its own list of entries out of the raw one anew, so it is the raw one that has to be without them.
    chain: TracebackType | None = None
    for entry in reversed(kept):
        chain = TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return pytest.ExceptionInfo.from_exception(error.with_traceback(chain))


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _is_own(entry: TracebackType) -> bool:
    return str(entry.tb_frame.f_globals.get("__name__", "")).startswith(_PACKAGE)
