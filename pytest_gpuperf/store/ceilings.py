"""The machine's ceilings in the user's cache folder: what cannot be read there is measured anew."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from pytest_gpuperf.measure.ceilings import Ceilings
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.store.errors import StoreError
from pytest_gpuperf.store.files import locked, read_file, write_file

CACHE_FOLDER = "pytest-gpuperf"
LOCK_WAIT_S = 120.0
"""Another process may be measuring them just now."""


def user_cache() -> Path:
    """Return the folder for what can be made anew: $XDG_CACHE_HOME, or .cache in the user's home."""
    stated = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(stated) if Path(stated).is_absolute() else Path.home() / ".cache") / CACHE_FOLDER


def place_of(machine: Machine, by: str, folder: Path | None = None) -> Path:
    """Return the file of the ceilings of a machine, measured `by` this software."""
    told = hashlib.sha256(f"{machine.model}\0{machine.driver}\0{by}".encode()).hexdigest()[:12]
    return (user_cache() if folder is None else folder) / "ceilings" / f"{machine.key}-{told}.json"


def load(place: Path) -> Ceilings | None:
    """Return what is kept there; None where nothing is, or nothing usable."""
    try:
        data = read_file(place)
        return None if data is None else msgspec.json.decode(data, type=Ceilings)
    except (StoreError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def load_or_measure(place: Path, measure: Callable[[], Ceilings], *, anew: bool = False) -> Ceilings:
    """Return the ceilings kept at `place`; where there are none, or `anew`, measure and keep them.

    Of several processes that want them at once one measures. A folder that cannot be written to is no reason to fail.
    `anew` replaces what is kept.
    """
    kept = None if anew else load(place)
    if kept is not None:
        return kept
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(place, LOCK_WAIT_S))
        except StoreError:
            return measure()
        kept = None if anew else load(place)
        if kept is not None:
            return kept
        found = measure()
        with contextlib.suppress(StoreError):
            write_file(place, msgspec.json.encode(found))
        return found
