"""`gpuperf accept`: what a session measured becomes the baseline, after a slowdown that is meant."""

from __future__ import annotations

import argparse

from pytest_gpuperf.commands.answer import Answer, CommandError
from pytest_gpuperf.commands.entries import briefly
from pytest_gpuperf.commands.places import add_pattern_option, add_storage_option, chosen_storage, matches
from pytest_gpuperf.commands.sources import LATEST, session_source
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.report.units import count
from pytest_gpuperf.settings import DEFAULT_BASELINE
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.schema import Entry, SessionRecord


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    least = Policy().min_runs
    parser.add_argument("session", metavar="SESSION", help=f"a session's id, or '{LATEST}'")
    parser.add_argument("--baseline", metavar="NAME", default=DEFAULT_BASELINE, help="default: %(default)s")
    parser.add_argument(
        "--extend",
        action="store_true",
        help="add the runs to those of the baseline instead of replacing them (replacing takes only benchmarks with at "
        f"least {least} runs, as those that were confirmed have: fewer cannot gate)",
    )
    add_pattern_option(parser)
    add_storage_option(parser)


def run(arguments: argparse.Namespace) -> Answer:
    """Store the session's runs of tests that passed their own assertions, and say what was stored and what was not."""
    storage = chosen_storage(arguments.storage)
    source = session_source(storage, arguments.session)
    record = source.content
    assert isinstance(record, SessionRecord), "session_source loads sessions only"
    entries = [entry for entry in source.entries.values() if matches(entry.benchmark, arguments.pattern)]
    if not entries:
        which = f" that matches -k {arguments.pattern!r}" if arguments.pattern else ""
        raise CommandError(f"session {source.label} measured no benchmark{which}")
    least = 1 if arguments.extend else Policy().min_runs
    taken = [entry for entry in entries if len(entry.runs) >= least]
    if not taken:
        raise CommandError(f"nothing to accept: {_too_few(entries, least)}")
    change = baselines.extend_entries if arguments.extend else baselines.replace_entries
    machine = record.info.machine.key
    baselines.update(storage, machine, arguments.baseline, lambda old: change(old, taken, record.info))
    return Answer("\n".join(_told(taken, entries, least, f"{arguments.baseline}@{machine}", extend=arguments.extend)))


def _told(taken: list[Entry], entries: list[Entry], least: int, place: str, *, extend: bool) -> list[str]:
    verb = "extended" if extend else "replaced"
    lines = [f"{place}: {verb} {count(len(taken), 'entry', 'entries')}: {briefly(taken)}"]
    left = [entry for entry in entries if len(entry.runs) < least]
    return [*lines, f"left as it was: {_too_few(left, least)}"] if left else lines


def _too_few(entries: list[Entry], least: int) -> str:
    return (
        f"{briefly(entries)}: fewer than the {least} runs that a baseline needs to gate; add them with --extend, "
        "or measure anew with pytest --gpuperf-save-baseline"
    )
