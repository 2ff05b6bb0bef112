"""The newest session records of a machine, and those among them that cannot be used."""

from __future__ import annotations

from pytest_gpuperf.store import sessions
from pytest_gpuperf.store.errors import StoreError
from pytest_gpuperf.store.schema import SessionRecord
from pytest_gpuperf.store.storage import Storage


def last_sessions(storage: Storage, machine: str, last: int, errors: list[str]) -> dict[str, SessionRecord]:
    """Return the last records (0: all) by name, oldest first; add to `errors` why others cannot be used."""
    names = sessions.names(storage, machine)
    loaded: dict[str, SessionRecord] = {}
    for name in names[-last:] if last > 0 else names:
        try:
            record = sessions.load(storage, machine, name)
        except StoreError as error:
            errors.append(str(error))
            continue
        if record is not None:
            loaded[name] = record
    return loaded
