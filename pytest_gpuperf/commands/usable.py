"""Stored files that can be used; of those that cannot, why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pytest_gpuperf.store import baselines, sessions
from pytest_gpuperf.store.errors import StoreError
from pytest_gpuperf.store.schema import Baseline, SessionRecord
from pytest_gpuperf.store.storage import Storage

T = TypeVar("T")


def usable_baselines(storage: Storage, machine: str, errors: list[str]) -> dict[str, Baseline]:
    """Return a machine's baselines by name; add to `errors` why others cannot be used."""
    names = baselines.names(storage, machine)
    return _usable(names, lambda name: baselines.load(storage, machine, name), errors)


def last_sessions(storage: Storage, machine: str, last: int, errors: list[str]) -> dict[str, SessionRecord]:
    """Return the last records (0: all) by name, oldest first; add to `errors` why others cannot be used."""
    names = sessions.names(storage, machine)
    return _usable(names[-last:] if last > 0 else names, lambda name: sessions.load(storage, machine, name), errors)


def _usable(names: Sequence[str], load: Callable[[str], T | None], errors: list[str]) -> dict[str, T]:
    loaded: dict[str, T] = {}
    for name in names:
        try:
            found = load(name)
        except StoreError as error:
            errors.append(str(error))
            continue
        if found is not None:  # else removed meanwhile
            loaded[name] = found
    return loaded
