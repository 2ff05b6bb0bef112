"""Session records: written once under a name that sorts by time, then only read, and removed when too many."""

from __future__ import annotations

import re

from pytest_gpuperf.store.codec import decode_session, encode_session
from pytest_gpuperf.store.errors import UnwritableFileError
from pytest_gpuperf.store.schema import SessionInfo, SessionRecord
from pytest_gpuperf.store.storage import Storage, checked_name

_SUFFIX = ".json"
_COMMIT_CHARACTERS = 12


def save(storage: Storage, machine_key: str, record: SessionRecord) -> str:
    """Store a session's record and return where it is. Raises StoreError, also where the name is taken."""
    place = _place(machine_key, _name_of(record.info))
    where = storage.describe(place)
    data = encode_session(record, where)
    with storage.locked(place):
        if storage.read(place) is not None:
            raise UnwritableFileError(where, "is there already", "Session records are never changed; use another id")
        storage.write(place, data)
    return where


def load(storage: Storage, machine_key: str, name: str) -> SessionRecord | None:
    """The session record of this name (as `names` gives it); None where it is absent. Raises StoreError."""
    place = _place(machine_key, name)
    data = storage.read(place)
    return None if data is None else decode_session(data, storage.describe(place))


def remove(storage: Storage, machine_key: str, name: str) -> None:
    """Remove the session record of this name. Raises StoreError."""
    place = _place(machine_key, name)
    with storage.locked(place):
        storage.remove(place)


def names(storage: Storage, machine_key: str) -> tuple[str, ...]:
    """The names of a machine model's session records, oldest first."""
    files = storage.names(f"sessions/{checked_name(machine_key, 'machine key')}")
    return tuple(file.removesuffix(_SUFFIX) for file in files if file.endswith(_SUFFIX))


def machines(storage: Storage) -> tuple[str, ...]:
    """The keys of the machine models that session records are stored for, sorted."""
    return storage.names("sessions")


def _place(machine_key: str, name: str) -> str:
    return f"sessions/{checked_name(machine_key, 'machine key')}/{checked_name(name, 'session name')}{_SUFFIX}"


def _name_of(info: SessionInfo) -> str:
    commit = _plain(info.commit)[:_COMMIT_CHARACTERS] or "nocommit"
    return f"{_plain(info.started)}-{commit}-{_plain(info.id)}"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", text)
