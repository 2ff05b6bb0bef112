from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pytest_gpuperf.store import sessions
from pytest_gpuperf.store.errors import InvalidNameError, UnwritableFileError
from pytest_gpuperf.store.schema import SessionInfo, SessionRecord
from pytest_gpuperf.store.storage import Storage


def test_a_record_lies_under_its_time_commit_and_id(storage: Storage, machine_key: str, record: SessionRecord) -> None:
    where = sessions.save(storage, machine_key, record)
    assert where == storage.describe("sessions/NVIDIA-H200/20261201T004500Z-0123456789ab-5e551011.json")
    assert sessions.machines(storage) == (machine_key,)
    (name,) = sessions.names(storage, machine_key)
    assert sessions.load(storage, machine_key, name) == record


def test_records_are_never_changed(storage: Storage, machine_key: str, record: SessionRecord) -> None:
    where = Path(sessions.save(storage, machine_key, record))
    before = where.read_bytes()
    with pytest.raises(UnwritableFileError, match="is there already"):
        sessions.save(storage, machine_key, msgspec.structs.replace(record, accounting={"measured": 2}))
    assert where.read_bytes() == before


def test_names_sort_by_time(
    storage: Storage, machine_key: str, record: SessionRecord, make_session: Callable[..., SessionInfo]
) -> None:
    for session_id, started in (
        ("bbb", "2026-12-02T00:00:00Z"),
        ("ccc", "2026-12-03T00:00:00Z"),
        ("aaa", "2026-12-01T09:00:00Z"),
    ):
        info = make_session(session_id, started=started, commit="")
        sessions.save(storage, machine_key, msgspec.structs.replace(record, info=info))
    assert [name.rpartition("-")[2] for name in sessions.names(storage, machine_key)] == ["aaa", "bbb", "ccc"]
    assert all("-nocommit-" in name for name in sessions.names(storage, machine_key))


def test_absent_is_none_and_odd_names_are_refused(storage: Storage, machine_key: str) -> None:
    assert sessions.names(storage, machine_key) == sessions.machines(storage) == ()
    assert sessions.load(storage, machine_key, "20261201T004500Z-x-y") is None
    with pytest.raises(InvalidNameError, match="session name"):
        sessions.load(storage, machine_key, "../baselines/main")


def test_odd_commits_and_ids_give_plain_names(
    storage: Storage, machine_key: str, record: SessionRecord, make_session: Callable[..., SessionInfo]
) -> None:
    info = make_session("../é$x", commit="v1/../dirty")
    sessions.save(storage, machine_key, msgspec.structs.replace(record, info=info))
    assert sessions.names(storage, machine_key) == ("20261201T004500Z-v1dirty-x",)
