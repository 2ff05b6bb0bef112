"""A/B: the working tree and another revision, measured in fresh processes of both in randomised turn."""

from __future__ import annotations

import functools
import itertools
import os
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_gpuperf.compare.fresh import FreshRun, Limits
from pytest_gpuperf.compare.launchers import FreshCommand
from pytest_gpuperf.compare.power import can_fail
from pytest_gpuperf.compare.provenance import Tree, built_extensions, foreign_modules
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.compare.worktree import Worktree
from pytest_gpuperf.session.context import Context
from pytest_gpuperf.session.fresh_worker import imported_files
from pytest_gpuperf.session.gate import Gate
from pytest_gpuperf.session.rounds import Arm, ProgressLine, Rounds, limits_for, session_command, start_together
from pytest_gpuperf.store.schema import Baseline, Entry

MODULES_NAMED = 3
REMEDY = (
    "Both sides would be compared on the same code; have the tests import from the tree they are in "
    "(remove an installed copy, or set `pythonpath`)"
)


@dataclass(slots=True)
class BothTrees:
    """What both sides measured; the old side is the revision's."""

    old: Rounds = field(default_factory=Rounds)
    new: Rounds = field(default_factory=Rounds)
    absent: set[str] = field(default_factory=set)
    """Tests that do not exist in the revision."""

    @property
    def failures(self) -> set[str]:
        """Tests that one of the sides has no runs of."""
        return {*self.old.failures, *self.new.failures}

    def add(self, old: FreshRun, new: FreshRun) -> None:
        """Take a run of each side."""
        self.old.add(old)
        self.new.add(new)
        self.absent |= old.uncollected


def compare_trees(
    context: Context, node_ids: Sequence[str], own_seconds: Mapping[str, float], timers: Mapping[str, str]
) -> BothTrees:
    """Run the tests `--gpuperf-runs` times in each tree, in random order within each pair of runs.

    `timers` gives the kind of timer, by a benchmark's key, that both trees are to be measured with.

    Raises `pytest.UsageError` where the revision cannot be collected or a side ran another side's code.
    """
    both = BothTrees()
    if not node_ids:
        return both
    settings, tree = context.settings, context.worktree
    limits = limits_for(node_ids, own_seconds, settings)
    progress = ProgressLine(context.config, f"A/B against {context.baseline_name}", len(node_ids), 2 * settings.runs)
    pairs = _Pairs(context, limits, timers, progress)
    asked = list(node_ids)
    try:
        for number in range(settings.runs):
            old, new = pairs.take(number, asked)
            _check(old, new, asked, tree)
            both.add(old, new)
            # What one side lacks cannot be compared, and would only be company that the other side does not have.
            asked = [node_id for node_id in asked if node_id not in both.failures]
            if not asked:
                break
    finally:
        progress.close()
        pairs.close()
    return both


class _Pairs:
    """Runs of both trees, one of each at a time."""

    def __init__(self, context: Context, limits: Limits, timers: Mapping[str, str], progress: ProgressLine) -> None:
        command, settings = session_command(context.config), context.settings
        kind = functools.partial(getattr, context.bench.machine, "kind")
        old = Arm(revision_command(command, context.worktree, context.config.rootpath), settings, kind)
        self._arms = {"old": old, "new": Arm(command, settings, kind)}
        self._limits = limits
        self._timers = timers
        self._progress = progress
        self._order = random.Random(context.session_id)

    def take(self, number: int, node_ids: Sequence[str]) -> tuple[FreshRun, FreshRun]:
        """Run the tests once in each tree, in random order; return what the old and the new one measured."""
        start_together(self._arms.values())
        pair = {}
        for place, side in enumerate(self._order.sample(["old", "new"], 2)):
            show = functools.partial(self._progress.show, 2 * number + place)
            pair[side] = self._arms[side].run_once(
                node_ids, self._limits, show, timers=self._timers, list_modules=True, list_kernels=number == 0
            )
        # Both sides' processes have to start alike.
        if any(arm.forks_given_up for arm in self._arms.values()):
            for arm in self._arms.values():
                arm.give_up_forks()
        return pair["old"], pair["new"]

    def close(self) -> None:
        """End what was started."""
        for arm in self._arms.values():
            arm.close()


def revision_command(command: FreshCommand, tree: Worktree, rootdir: Path) -> FreshCommand:
    """Return the command that does in the revision's tree what `command` does in the working tree.

    Without the `rootdir` a revision that lacks the ini file would know its tests by other names.
    """
    cwd = Path(command.cwd)
    arguments = tuple(tree.translated(argument, cwd) for argument in command.arguments)
    return replace(
        command,
        arguments=(f"--rootdir={tree.folder_for(rootdir)}", *arguments),
        cwd=str(tree.folder_for(cwd)),
        environment={**command.environment, "PYTHONPATH": os.pathsep.join(_import_paths(tree))},
    )


def _import_paths(tree: Worktree) -> list[str]:
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    installed = {str(path) for path in tree.ignored(given)}
    kept = [path for path in given if tree.counterpart(Path(path)) is None or str(Path(path).resolve()) in installed]
    return [*tree.import_paths([*sys.path, *tree.import_roots(imported_files())]), *kept]


def revision_gate(context: Context, both: BothTrees, node_ids: Mapping[str, str]) -> Gate:
    """Return the gate on what the revision measured; `node_ids` gives each benchmark's test by the benchmark's key."""
    entries: dict[str, Entry] = {}
    for events in both.old.measured.values():
        for event in events:
            key = event.benchmark.key
            if key in entries and entries[key].identity != event.identity:
                continue  # by another timer than the first run, say
            before = entries[key].runs if key in entries else ()
            entries[key] = Entry(benchmark=event.benchmark, identity=event.identity, runs=(*before, event.record))
    broken = {
        key: both.old.failures[node_id][0]
        for key, node_id in node_ids.items()
        if node_id in both.old.failures and node_id not in both.absent
    }
    measured = {key: entry for key, entry in entries.items() if key in node_ids and key not in broken}
    baseline = Baseline(machine_model=context.bench.machine.model, entries=measured)
    return context.gate_on(baseline, f"revision {context.baseline_name}", unusable=broken)


def note_on_runs(runs: int) -> str:
    """Say where so many runs of each side can fail nothing; empty where they can."""
    if can_fail(runs, runs, Policy()):
        return ""
    enough = next(count for count in itertools.count(runs) if can_fail(count, count, Policy()))
    return f"{runs} of each side are too few runs to call anything regressed: --gpuperf-runs={enough} are enough."


def gate_before_comparing(context: Context, keys: Iterable[str]) -> Gate:
    """Return the gate of a session that was stopped before both trees were compared."""
    unusable = dict.fromkeys(keys, "the session stopped before both were compared")
    return context.gate_on(None, f"revision {context.baseline_name}", unusable=unusable)


def _check(old: FreshRun, new: FreshRun, asked: Sequence[str], tree: Worktree) -> None:
    """Refuse what would compare the same code twice, or nothing."""
    inert = [Path(sys.prefix).resolve(), *tree.ignored(sys.path)]
    extensions = built_extensions(new.modules, tree.top, inert)
    lacking = {n: f for n, f in extensions.items() if not (tree.counterpart(Path(f)) or Path(f)).exists()}
    if lacking:
        raise _refusal(
            tree,
            "the working tree uses compiled modules that a checkout of it lacks",
            lacking,
            "Build both revisions, install each in an environment of its own, and compare stored baselines",
        )
    if not old.measured and set(asked) <= old.failures.keys() - old.uncollected:
        reason = next(iter(old.failures.values()))
        raise pytest.UsageError(f"--gpuperf-against={tree.revision}: its benchmarks cannot be run: {reason}")
    sides = {"the revision": (old, tree.root, tree.top), "the working tree": (new, tree.top, tree.root)}
    for side, (run, own, other) in sides.items():
        trees = Tree(own=own, other=other, tracked=tree.tracked_files, inert=inert)
        if strayed := foreign_modules(run.modules, trees):
            raise _refusal(tree, f"the processes of {side} did not run its own code", strayed, REMEDY)


def _refusal(tree: Worktree, what: str, modules: Mapping[str, str], remedy: str) -> pytest.UsageError:
    named = ", ".join(f"{name} from {file}" for name, file in list(modules.items())[:MODULES_NAMED])
    more = f" and {len(modules) - MODULES_NAMED} more" if len(modules) > MODULES_NAMED else ""
    return pytest.UsageError(f"--gpuperf-against={tree.revision}: {what}: {named}{more}. {remedy}")
