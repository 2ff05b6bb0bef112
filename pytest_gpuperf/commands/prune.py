"""`gpuperf prune`: remove what is no longer measured from a baseline, or old session records."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from pytest_gpuperf.commands.answer import Answer, CommandError
from pytest_gpuperf.commands.entries import entries_at, no_such_entry
from pytest_gpuperf.commands.places import add_baseline_option, add_storage_option, baseline_places, chosen_storage
from pytest_gpuperf.commands.settings_options import whole_number
from pytest_gpuperf.commands.sources import LATEST, find_session
from pytest_gpuperf.report.units import count
from pytest_gpuperf.store import baselines, sessions
from pytest_gpuperf.store.schema import Baseline, Entry
from pytest_gpuperf.store.storage import Storage

_Chosen = Callable[[Baseline], list[Entry]]
"""Gives the entries of a baseline that are to go."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("ids", metavar="ID", nargs="*", help="a benchmark, or all of a test, class, file or folder")
    parser.add_argument(
        "--missing-in",
        metavar="SESSION",
        help=f"what that session (its id, or '{LATEST}') found missing: in the baseline and selected, but not run",
    )
    parser.add_argument(
        "--keep-sessions",
        metavar="N",
        type=whole_number(0),
        help="remove session records instead, all but the newest N of every machine; baselines stay as they are",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed, and leave it")
    add_baseline_option(parser)
    add_storage_option(parser)


def run(arguments: argparse.Namespace) -> Answer:
    """Remove the entries and say which; nothing is removed if an id fits none."""
    ways = (bool(arguments.ids), bool(arguments.missing_in), arguments.keep_sessions is not None)
    if sum(ways) != 1:
        raise CommandError("give the ids of what to remove, or --missing-in SESSION, or --keep-sessions N")
    storage = chosen_storage(arguments.storage)
    if arguments.keep_sessions is not None:
        return _without_old_sessions(storage, arguments.keep_sessions, dry_run=arguments.dry_run)
    places = baseline_places(storage, arguments.baseline)
    loaded = {place: _loaded(storage, *place) for place in places}
    for asked in arguments.ids:
        if not any(entries_at(baseline, asked) for baseline in loaded.values()):
            raise no_such_entry(asked, loaded.values())
    chosen = _at(arguments.ids) if arguments.ids else _missing_in(storage, arguments.missing_in)
    lines: list[str] = []
    for (machine, name), baseline in loaded.items():
        doomed = chosen(baseline)
        if doomed and not arguments.dry_run:
            baselines.update(storage, machine, name, lambda old: _without(old, chosen))
        verb = "would remove" if arguments.dry_run else "removed"
        lines.append(f"{name}@{machine}: {verb} {count(len(doomed), 'entry', 'entries')} of {len(baseline.entries)}")
        lines += [f"  {entry.benchmark.label}" for entry in doomed]
    return Answer("\n".join(lines))


def _without_old_sessions(storage: Storage, kept: int, *, dry_run: bool) -> Answer:
    lines = []
    for machine in sessions.machines(storage):
        names = sessions.names(storage, machine)
        doomed = names[: max(0, len(names) - kept)]
        for name in () if dry_run else doomed:
            sessions.remove(storage, machine, name)
        verb = "would remove" if dry_run else "removed"
        lines.append(f"{machine}: {verb} {count(len(doomed), 'session record')} of {len(names)}")
    return Answer("\n".join(lines or ["there are no session records"]))


def _loaded(storage: Storage, machine: str, name: str) -> Baseline:
    baseline = baselines.load(storage, machine, name)
    return baseline if baseline is not None else Baseline(machine_model=machine)


def _at(ids: list[str]) -> _Chosen:
    def chosen(baseline: Baseline) -> list[Entry]:
        found = {entry.benchmark.key: entry for asked in ids for entry in entries_at(baseline, asked)}
        return list(found.values())

    return chosen


def _missing_in(storage: Storage, session: str) -> _Chosen:
    _, record = find_session(storage, session)
    missing = {outcome.benchmark.key for outcome in record.outcomes if outcome.decision.verdict == "missing"}
    if not missing:
        raise CommandError(f"session {session!r} found nothing missing")
    # These alone: a missing `test_a` may have become `test_a[x]`, which is there.
    return lambda baseline: [entry for key, entry in baseline.entries.items() if key in missing]


def _without(old: Baseline | None, chosen: _Chosen) -> Baseline:
    if old is None:
        raise CommandError("the baseline was removed a moment ago")
    return baselines.remove_entries(old, [entry.benchmark.key for entry in chosen(old)])
