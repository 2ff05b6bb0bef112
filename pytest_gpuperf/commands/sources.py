"""What an argument such as `main`, `main@NVIDIA-H200`, `latest`, a session's id or a file's path stands for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.commands.answer import CommandError
from pytest_gpuperf.commands.places import all_baselines, baseline_places, chosen_storage, listed, matching_machine
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.store import baselines, sessions
from pytest_gpuperf.store.codec import decode_baseline, decode_session
from pytest_gpuperf.store.errors import ForeignFileError
from pytest_gpuperf.store.files import read_file
from pytest_gpuperf.store.parse import parse
from pytest_gpuperf.store.schema import BASELINE_FORMAT, SESSION_FORMAT, Baseline, Entry, SessionInfo, SessionRecord
from pytest_gpuperf.store.storage import Storage

LATEST = "latest"
HELP = f"a baseline's NAME or NAME@MACHINE, a session's id or '{LATEST}', or the path of a file of either kind"


@dataclass(frozen=True, slots=True)
class Source:
    """A stored baseline or session, and how it is called."""

    label: str
    content: Baseline | SessionRecord

    @property
    def model(self) -> str:
        """The machine model that it was measured on."""
        return self.content.machine_model if isinstance(self.content, Baseline) else self.content.info.machine.model

    @property
    def entries(self) -> dict[str, Entry]:
        """Its benchmarks with their runs, by key; what a session did not run is left out."""
        if isinstance(self.content, Baseline):
            return self.content.entries
        return {outcome.benchmark.key: entry_of(outcome) for outcome in self.content.outcomes if outcome.runs}

    @property
    def sessions(self) -> list[SessionInfo]:
        """The sessions that its runs come from, oldest first."""
        infos = self.content.sessions.values() if isinstance(self.content, Baseline) else [self.content.info]
        return sorted(infos, key=lambda info: info.started)

    @property
    def machines(self) -> list[Machine]:
        """The machines that its runs come from."""
        return [info.machine for info in self.sessions]


def entry_of(outcome: Outcome) -> Entry:
    """A session's outcome as what a baseline holds of it."""
    return Entry(benchmark=outcome.benchmark, identity=outcome.identity, runs=outcome.runs, group=outcome.group)


def find_source(spec: str, storage_location: str | None) -> Source:
    """Load what `spec` stands for. Raises CommandError, with what there is instead, and StoreError."""
    if Path(spec).is_file():
        return _from_file(Path(spec))
    if "/" in spec or spec.endswith(".json"):
        raise CommandError(f"{spec}: there is no such file")
    storage = chosen_storage(storage_location)
    name = spec.partition("@")[0]
    if any(name == known.partition("@")[0] for known in all_baselines(storage)):
        return _from_baseline(storage, spec)
    return Source(*find_session(storage, spec))


def _from_file(path: Path) -> Source:
    where = str(path)
    data = read_file(path) or b""
    content = parse(data, where)
    kind = content.get("format") if isinstance(content, dict) else None
    if kind == BASELINE_FORMAT:
        return Source(where, decode_baseline(data, where))
    if kind == SESSION_FORMAT:
        return Source(where, decode_session(data, where))
    raise ForeignFileError(where, "is neither a baseline nor a session of pytest-gpuperf", "Give one of our own files")


def _from_baseline(storage: Storage, spec: str) -> Source:
    places = baseline_places(storage, spec)
    if len(places) > 1:
        choices = listed(f"{name}@{machine}" for machine, name in places)
        raise CommandError(f"baseline {spec!r} is stored for several machines: give one of {choices}")
    (machine, name) = places[0]
    baseline = baselines.load(storage, machine, name)
    if baseline is None:
        raise CommandError(f"baseline {name!r} of {machine} was removed a moment ago")
    return Source(f"{name}@{machine}", baseline)


def find_session(storage: Storage, spec: str) -> tuple[str, SessionRecord]:
    """Load the session that an id, a unique part of its file's name, or `latest` stands for, perhaps with `@MACHINE`.

    Returns its name too. Raises CommandError where there is not exactly one, and StoreError.
    """
    part, at, asked_machine = spec.partition("@")
    known = [(machine, name) for machine in sessions.machines(storage) for name in sessions.names(storage, machine)]
    if at:
        only = matching_machine(asked_machine, sessions.machines(storage))
        known = [(machine, name) for machine, name in known if machine == only]
    found = sorted(known, key=lambda place: place[1])[-1:] if part == LATEST else [p for p in known if part in p[1]]
    if len(found) != 1:
        raise CommandError(_not_one_session(spec, [name for _, name in found], storage))
    (machine, name) = found[0]
    record = sessions.load(storage, machine, name)
    if record is None:
        raise CommandError(f"session {name!r} of {machine} was removed a moment ago")
    return name, record


def _not_one_session(spec: str, found: list[str], storage: Storage) -> str:
    if found:
        return f"{spec!r} is part of several sessions' names: {listed(found)}"
    stored = listed(all_baselines(storage))
    return f"there is no baseline or session {spec!r} (baselines: {stored}; 'gpuperf list' lists sessions too)"
