"""`gpuperf rename`: let stored entries follow a test, class, file or folder to its new name."""

from __future__ import annotations

import argparse

from pytest_gpuperf.commands.answer import Answer, CommandError
from pytest_gpuperf.commands.entries import entries_at, no_such_entry
from pytest_gpuperf.commands.places import add_baseline_option, add_storage_option, baseline_places, chosen_storage
from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.schema import Baseline, Entry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("old", metavar="OLD", help="the stored id of a benchmark, test, class, file or folder")
    parser.add_argument("new", metavar="NEW", help="what it is called now; what follows OLD in an id stays")
    add_baseline_option(parser)
    add_storage_option(parser)


def run(arguments: argparse.Namespace) -> Answer:
    """Rename in every machine's baseline of that name, and say what; exit code 2 if there is nothing at OLD."""
    storage = chosen_storage(arguments.storage)
    places = baseline_places(storage, arguments.baseline)
    old, new = arguments.old.rstrip("/"), arguments.new.rstrip("/")
    if not new or ("::" in old and "::" not in new):
        raise CommandError(
            f"{new!r} is no id of a test: write NEW as OLD is written, such as 'tests/test_a.py::test_a'"
        )
    loaded = {place: baseline for place in places if (baseline := baselines.load(storage, *place)) is not None}
    if not any(entries_at(baseline, old) for baseline in loaded.values()):
        raise no_such_entry(old, loaded.values())
    # Tried on all before any is stored, so that a name that is taken leaves every baseline as it was.
    for baseline in loaded.values():
        renamed(baseline, old, new)
    lines: list[str] = []
    for (machine, name), baseline in loaded.items():
        moved = entries_at(baseline, old)
        if moved:
            baselines.update(storage, machine, name, lambda stored: _renamed_stored(stored, old, new))
            lines.append(f"{name}@{machine}:")
            lines += [f"  {entry.benchmark.label} -> {_new_id(entry, old, new).label}" for entry in moved]
    return Answer("\n".join(lines))


def renamed(baseline: Baseline, old: str, new: str) -> Baseline:
    """`baseline` with the entries at `old` moved to `new`. Raises CommandError where an entry is there already."""
    for entry in entries_at(baseline, old):
        try:
            baseline = baselines.rename_entry(baseline, entry.benchmark.key, _new_id(entry, old, new))
        except ValueError as error:
            raise CommandError(f"{error}: remove that with 'gpuperf prune' first, or choose another name") from error
    return baseline


def _renamed_stored(stored: Baseline | None, old: str, new: str) -> Baseline:
    if stored is None:
        raise CommandError("the baseline was removed a moment ago")
    return renamed(stored, old, new)


def _new_id(entry: Entry, old: str, new: str) -> BenchmarkId:
    """The id with its beginning replaced; a name within the test, `(name)`, stays the name unless `old` includes it."""
    benchmark = entry.benchmark
    if benchmark.node_id.startswith(old):
        return BenchmarkId.of(new + benchmark.node_id[len(old) :], benchmark.name)
    node_id, _, name = new.removesuffix(")").rpartition(" (")
    if not node_id:
        raise CommandError(f"{old!r} names one of a test's several benchmarks: write NEW as 'test id (name)' too")
    return BenchmarkId.of(node_id, name)
