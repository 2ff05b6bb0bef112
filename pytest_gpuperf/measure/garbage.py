"""Garbage collection: off while calls are timed, and made up for between batches."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_GENERATION = 1


@contextmanager
def collection_paused() -> Iterator[None]:
    """Keep garbage collection out of the trials; the state before is restored."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def collect_young_garbage() -> None:
    """Free what recent calls left in reference cycles: without it, tensors in cycles would fill the device."""
    gc.collect(YOUNG_GENERATION)
