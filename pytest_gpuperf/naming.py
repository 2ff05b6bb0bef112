"""Whose call it was that raised: needed by plain sessions too, which load nothing that measures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def failures_named(whose: str) -> Iterator[None]:
    """Add to what the body raises whose call it was, one of several; empty: nobody's in particular.

    A note of the exception (Python 3.11), so that it stays what it is.
    """
    try:
        yield
    except BaseException as error:
        if whose and hasattr(error, "add_note"):
            error.add_note(f"gpubench: raised by {whose}")
        raise
