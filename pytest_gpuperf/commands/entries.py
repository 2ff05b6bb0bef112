"""Which entries of a baseline are meant by test ids on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_gpuperf.commands.answer import CommandError
from pytest_gpuperf.commands.places import listed
from pytest_gpuperf.report.names import short_names
from pytest_gpuperf.store.schema import Baseline, Entry

_BOUNDARIES = ("[", "::", "/", " (")
_SUGGESTED = 5


def entries_at(baseline: Baseline, place: str) -> list[Entry]:
    """The entries of one benchmark, test, class, file or folder: those whose id is `place` or goes on from it."""
    return [entry for entry in baseline.entries.values() if _is_at(entry.benchmark.label, place)]


def _is_at(label: str, place: str) -> bool:
    return label == place or any(label.startswith(place + boundary) for boundary in _BOUNDARIES)


def no_such_entry(place: str, baselines: Iterable[Baseline]) -> CommandError:
    """The error for a place at which no baseline has an entry; it lists some that there are."""
    benchmarks = [entry.benchmark for baseline in baselines for entry in baseline.entries.values()]
    last = place.rsplit("/", 1)[-1].rsplit("::", 1)[-1].partition("[")[0].lower()
    close = [benchmark for benchmark in benchmarks if last and last in benchmark.label.lower()] or benchmarks
    labels = sorted({benchmark.label for benchmark in close})
    more = len(labels) - _SUGGESTED
    shown = listed(labels[:_SUGGESTED]) + (f" and {more} more" if more > 0 else "")
    return CommandError(f"no entry at {place!r}: give the id of a test, a class or a file; there is {shown}")


def briefly(entries: Iterable[Entry], most: int = 10) -> str:
    """The short names of entries in a row, those beyond `most` only counted."""
    names = list(short_names(entry.benchmark for entry in entries).values())
    more = len(names) - most
    return listed(names) if more <= 1 else f"{', '.join(names[:most])} and {more} more"
