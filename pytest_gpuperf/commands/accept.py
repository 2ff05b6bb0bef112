"""`gpuperf accept`: what a session measured becomes the baseline, after a slowdown that is meant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuperf.commands.answer import Answer, CommandError
from pytest_gpuperf.commands.entries import briefly
from pytest_gpuperf.commands.places import (
    add_pattern_option,
    add_storage_option,
    chosen_storage,
    matches,
    terminal_width,
)
from pytest_gpuperf.commands.sources import LATEST, entry_of, find_session
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.report.summary import wrapped
from pytest_gpuperf.report.units import count
from pytest_gpuperf.settings import DEFAULT_BASELINE
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.schema import Baseline, Entry, SessionRecord

_LEAST_RUNS = Policy().min_runs
_TOO_FEW = (
    f"fewer than the {_LEAST_RUNS} runs that a baseline needs to gate (add them to the stored ones with --extend, or "
    "measure anew with pytest --gpuperf-save-baseline)"
)
_THERE_ALREADY = "the baseline has this session's runs already"
_TWO_SPEEDS = "its time changed, and a baseline of two speeds gates nothing (accept it without --extend)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("session", metavar="SESSION", help=f"a session's id, or '{LATEST}'")
    parser.add_argument("--baseline", metavar="NAME", default=DEFAULT_BASELINE, help="default: %(default)s")
    parser.add_argument(
        "--extend",
        action="store_true",
        help="add the runs to those of the baseline instead of replacing them (replacing takes only benchmarks with at "
        f"least {_LEAST_RUNS} runs, as those that were confirmed have)",
    )
    add_pattern_option(parser)
    add_storage_option(parser)


def run(arguments: argparse.Namespace) -> Answer:
    """Store the session's runs, of which only tests that passed their own assertions have any; say what was left."""
    storage = chosen_storage(arguments.storage)
    name, record = find_session(storage, arguments.session)
    outcomes = [o for o in record.outcomes if o.runs and matches(o.benchmark, arguments.pattern)]
    if not outcomes:
        which = f" that matches -k {arguments.pattern!r}" if arguments.pattern else ""
        raise CommandError(f"session {name} measured no benchmark{which}")
    acceptance = _Acceptance(record, outcomes, arguments.extend)
    machine = record.info.machine.key
    taken, left = acceptance.sorted_out(baselines.load(storage, machine, arguments.baseline))
    if not taken:
        raise CommandError(f"nothing to accept: {'; '.join(left)}")
    baselines.update(storage, machine, arguments.baseline, acceptance.applied)
    verb = "extended" if arguments.extend else "replaced"
    done = f"{arguments.baseline}@{machine}: {verb} {count(len(taken), 'entry', 'entries')}: {briefly(taken)}"
    return Answer("\n".join(wrapped([done, *(f"left as it was: {line}" for line in left)], terminal_width())))


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """What is to go from a session into a baseline."""

    record: SessionRecord
    outcomes: Sequence[Outcome]
    extend: bool

    def applied(self, old: Baseline | None) -> Baseline:
        """The baseline with what can be taken."""
        change = baselines.extend_entries if self.extend else baselines.replace_entries
        return change(old, self.sorted_out(old)[0], self.record.info)

    def sorted_out(self, old: Baseline | None) -> tuple[list[Entry], list[str]]:
        """The entries to take, and a line for each reason to leave others."""
        taken: list[Entry] = []
        left: dict[str, list[Entry]] = {}
        for outcome in self.outcomes:
            reason = self._reason_to_leave(outcome, old)
            (taken if reason is None else left.setdefault(reason, [])).append(entry_of(outcome))
        return taken, [f"{briefly(entries, 3)}: {reason}" for reason, entries in left.items()]

    def _reason_to_leave(self, outcome: Outcome, old: Baseline | None) -> str | None:
        if outcome.hazards:
            return f"measured while {' and '.join(outcome.hazards)}"
        if any(check.is_limit for check in outcome.checks):
            return "did not keep to its limits"
        if not self.extend:
            return _TOO_FEW if len(outcome.runs) < _LEAST_RUNS else None
        stored = None if old is None else old.entries.get(outcome.benchmark.key)
        # The same runs twice are no more evidence, but would pass for it.
        if stored is not None and any(run.session == self.record.info.id for run in stored.runs):
            return _THERE_ALREADY
        return _TWO_SPEEDS if outcome.decision.verdict in ("regressed", "improved") else None
