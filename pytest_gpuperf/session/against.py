"""A/B: the working tree and another revision, measured in fresh processes of both in randomised turn."""

from __future__ import annotations

import functools
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_gpuperf.compare.fresh import FreshRun
from pytest_gpuperf.compare.launchers import FreshCommand
from pytest_gpuperf.compare.provenance import built_extensions, foreign_modules
from pytest_gpuperf.compare.worktree import Worktree
from pytest_gpuperf.session.context import Context
from pytest_gpuperf.session.gate import Gate
from pytest_gpuperf.session.rounds import Arm, ProgressLine, Rounds, limits_for, session_command
from pytest_gpuperf.store.schema import Baseline, Entry

MODULES_NAMED = 3


@dataclass(slots=True)
class BothTrees:
    """What both sides measured; the old side is the revision's."""

    old: Rounds = field(default_factory=Rounds)
    new: Rounds = field(default_factory=Rounds)
    absent: set[str] = field(default_factory=set)
    """Tests that do not exist in the revision."""


def compare_trees(context: Context, node_ids: Sequence[str], own_seconds: Mapping[str, float]) -> BothTrees:
    """Run the tests `--gpuperf-runs` times in each tree, in random order within each pair of runs.

    Raises `pytest.UsageError` where the revision cannot be collected or a side ran another side's code.
    """
    both = BothTrees()
    if not node_ids:
        return both
    new_command = session_command(context.config)
    settings, tree = context.settings, context.worktree
    kind = functools.partial(getattr, context.bench.machine, "kind")
    arms = {"old": Arm(revision_command(new_command, tree), settings, kind), "new": Arm(new_command, settings, kind)}
    limits = limits_for(node_ids, own_seconds, settings)
    progress = ProgressLine(context.config, f"A/B against {context.baseline_name}", len(node_ids), 2 * settings.runs)
    order = random.Random(context.session_id)
    try:
        for number in range(settings.runs):
            pair = {}
            for place, side in enumerate(order.sample(["old", "new"], 2)):
                show = functools.partial(progress.show, 2 * number + place)
                pair[side] = arms[side].run_once(node_ids, limits, show, list_modules=number == 0)
            if number == 0:
                _check_first_pair(pair["old"], pair["new"], node_ids, tree)
            both.old.add(pair["old"])
            both.new.add(pair["new"])
            both.absent |= pair["old"].uncollected
    finally:
        progress.close()
        for arm in arms.values():
            arm.close()
    return both


def revision_command(command: FreshCommand, tree: Worktree) -> FreshCommand:
    """Return the command that does in the revision's tree what `command` does in the working tree."""
    cwd = Path(command.cwd)
    paths = tree.import_paths(sys.path) + [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return replace(
        command,
        arguments=tuple(tree.translated(argument, cwd) for argument in command.arguments),
        cwd=str(tree.counterpart(cwd) or cwd),
        environment={**command.environment, "PYTHONPATH": os.pathsep.join(paths)},
    )


def revision_gate(context: Context, both: BothTrees, node_ids: Mapping[str, str]) -> Gate:
    """Return the gate on what the revision measured; `node_ids` gives each benchmark's test by the benchmark's key."""
    entries: dict[str, Entry] = {}
    for events in both.old.measured.values():
        for event in events:
            key = event.benchmark.key
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


def _check_first_pair(old: FreshRun, new: FreshRun, node_ids: Sequence[str], tree: Worktree) -> None:
    inert = [Path(sys.prefix).resolve()]
    extensions = built_extensions(new.modules, tree.top, inert)
    lacking = {n: f for n, f in extensions.items() if not (tree.counterpart(Path(f)) or Path(f)).exists()}
    if lacking:
        raise _refusal(tree, "the working tree uses compiled modules that a checkout of it lacks", lacking)
    if not old.measured and set(node_ids) <= old.failures.keys() - old.uncollected:
        reason = next(iter(old.failures.values()))
        raise pytest.UsageError(f"--gpuperf-against={tree.revision}: its benchmarks cannot be run: {reason}")
    tracked = tree.tracked_modules()
    strayed = foreign_modules(old.modules, own=tree.root, other=tree.top, tracked=tracked, inert=inert)
    if strayed:
        raise _refusal(tree, "the processes of the revision did not run the revision's code", strayed)
    strayed = foreign_modules(new.modules, own=tree.top, other=tree.root, tracked=tracked, inert=inert)
    if strayed:
        raise _refusal(tree, "the processes of the working tree did not run its code", strayed)


def _refusal(tree: Worktree, what: str, modules: Mapping[str, str]) -> pytest.UsageError:
    named = ", ".join(f"{name} from {file}" for name, file in list(modules.items())[:MODULES_NAMED])
    more = f" and {len(modules) - MODULES_NAMED} more" if len(modules) > MODULES_NAMED else ""
    return pytest.UsageError(
        f"--gpuperf-against={tree.revision}: {what}: {named}{more}. Both sides would be compared on the same code; "
        "have the tests import from the tree they are in (remove an installed copy, or set `pythonpath`)"
    )
