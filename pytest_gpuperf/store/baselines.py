"""Named baselines: loading, locked updates, and the pure functions that change what one holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from pytest_gpuperf.compare.identity import incomparability
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.store.codec import decode_baseline, encode_baseline
from pytest_gpuperf.store.errors import BrokenFileError, IncomparableRunsError
from pytest_gpuperf.store.schema import Baseline, Entry, SessionInfo
from pytest_gpuperf.store.storage import Storage, checked_name

_SUFFIX = ".json"


def place_of(machine_key: str, name: str) -> str:
    """The place of a machine's baseline in a storage. Raises InvalidNameError."""
    return f"baselines/{checked_name(machine_key, 'machine key')}/{checked_name(name)}{_SUFFIX}"


def load(storage: Storage, machine_key: str, name: str) -> Baseline | None:
    """The named baseline of a machine model; None where it is absent. Raises StoreError for anything unusable."""
    place = place_of(machine_key, name)
    data = storage.read(place)
    return None if data is None else _decoded(data, machine_key, storage.describe(place))


def update(storage: Storage, machine_key: str, name: str, change: Callable[[Baseline | None], Baseline]) -> Baseline:
    """Apply `change` to what is stored (None: nothing) and store the outcome, with no other process in between.

    Sessions that no run refers to are dropped. Raises StoreError; what is stored is then as it was.
    """
    place = place_of(machine_key, name)
    where = storage.describe(place)
    with storage.locked(place):
        old = storage.read(place)
        new = without_unused_sessions(change(None if old is None else _decoded(old, machine_key, where)))
        data = encode_baseline(new, where)
        if data != old:
            storage.write(place, data)
    return new


def names(storage: Storage, machine_key: str) -> tuple[str, ...]:
    """The names of the baselines that are stored for a machine model, sorted."""
    files = storage.names(f"baselines/{checked_name(machine_key, 'machine key')}")
    return tuple(file.removesuffix(_SUFFIX) for file in files if file.endswith(_SUFFIX))


def machines(storage: Storage) -> tuple[str, ...]:
    """The keys of the machine models that baselines are stored for, sorted."""
    return storage.names("baselines")


def machines_with(storage: Storage, name: str) -> tuple[str, ...]:
    """The keys of the machine models that have a baseline of this name, sorted."""
    file = checked_name(name) + _SUFFIX
    return tuple(machine for machine in machines(storage) if file in storage.names(f"baselines/{machine}"))


def replace_entries(baseline: Baseline | None, entries: Iterable[Entry], session: SessionInfo) -> Baseline:
    """`baseline` (None: an empty one) with these entries in place of those of the same benchmarks.

    Runs that name no session become `session`'s.
    """
    return _with_entries(baseline, {entry.benchmark.key: _signed(entry, session) for entry in entries}, session)


def extend_entries(baseline: Baseline | None, entries: Iterable[Entry], session: SessionInfo) -> Baseline:
    """`baseline` with the runs of these entries added to those of the same benchmarks.

    Raises IncomparableRunsError, with all reasons, where an entry's identity is another than the baseline's.
    """
    old = {} if baseline is None else baseline.entries
    new = {entry.benchmark.key: _signed(entry, session) for entry in entries}
    reasons = {key: incomparability(old[key].identity, new[key].identity) for key in new.keys() & old.keys()}
    refused = {key: reason for key, reason in reasons.items() if reason is not None}
    if refused:
        raise IncomparableRunsError(refused)
    extended = {key: _extended(old[key], entry) if key in old else entry for key, entry in new.items()}
    return _with_entries(baseline, extended, session)


def remove_entries(baseline: Baseline, keys: Collection[str]) -> Baseline:
    """`baseline` without the entries of these keys. Raises KeyError for a key that it does not hold."""
    for key in keys:
        baseline.entries[key]
    kept = {key: entry for key, entry in baseline.entries.items() if key not in keys}
    return without_unused_sessions(msgspec.structs.replace(baseline, entries=kept))


def rename_entry(baseline: Baseline, key: str, benchmark: BenchmarkId) -> Baseline:
    """`baseline` with the entry at `key` as that of another benchmark.

    Raises KeyError where there is no such entry, ValueError where the new name is taken.
    """
    entry = msgspec.structs.replace(baseline.entries[key], benchmark=benchmark)
    kept = {other: kept for other, kept in baseline.entries.items() if other != key}
    if benchmark.key in kept:
        raise ValueError(f"the baseline already has an entry for {benchmark.label}")
    return msgspec.structs.replace(baseline, entries=kept | {benchmark.key: entry})


def without_unused_sessions(baseline: Baseline) -> Baseline:
    """`baseline` with only the sessions that its runs refer to."""
    used = {run.session for entry in baseline.entries.values() for run in entry.runs}
    sessions = {key: info for key, info in baseline.sessions.items() if key in used}
    return msgspec.structs.replace(baseline, sessions=sessions)


def _decoded(data: bytes, machine_key: str, where: str) -> Baseline:
    baseline = decode_baseline(data, where)
    own_key = Machine(model=baseline.machine_model, kind="").key
    if own_key != machine_key:
        raise BrokenFileError(
            where,
            f'is of the machine model "{baseline.machine_model}" but lies in the folder of {machine_key}',
            f"Move it to the folder {own_key}, or restore the right file",
        )
    return baseline


def _signed(entry: Entry, session: SessionInfo) -> Entry:
    runs = tuple(run if run.session else msgspec.structs.replace(run, session=session.id) for run in entry.runs)
    return msgspec.structs.replace(entry, runs=runs)


def _extended(old: Entry, new: Entry) -> Entry:
    return msgspec.structs.replace(old, runs=old.runs + new.runs, group=new.group)


def _with_entries(baseline: Baseline | None, entries: dict[str, Entry], session: SessionInfo) -> Baseline:
    base = baseline or Baseline(machine_model=session.machine.model)
    changed = Baseline(
        machine_model=base.machine_model,
        sessions=base.sessions | {session.id: session},
        entries=base.entries | entries,
    )
    return without_unused_sessions(changed)
