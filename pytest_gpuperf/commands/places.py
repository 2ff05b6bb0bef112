"""Where a command's stored files are: the storage, the baselines in it, and which benchmarks are meant."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from pytest_gpuperf.commands.answer import CommandError
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.settings import DEFAULT_BASELINE
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.storage import Storage, open_storage

STORAGE_FOLDER = ".gpuperf"
_WIDTH_WITHOUT_TERMINAL = 100


def add_storage_option(parser: argparse.ArgumentParser) -> None:
    """Add `--storage`."""
    parser.add_argument(
        "--storage",
        metavar="DIR",
        help=f"where baselines and session records are (default: the nearest {STORAGE_FOLDER} from here upwards)",
    )


def add_pattern_option(parser: argparse.ArgumentParser) -> None:
    """Add `-k`."""
    parser.add_argument(
        "-k",
        dest="pattern",
        metavar="PATTERN",
        default="",
        help="only benchmarks whose id contains PATTERN, or matches it if it has * or ?",
    )


def add_baseline_option(parser: argparse.ArgumentParser) -> None:
    """Add `--baseline`."""
    parser.add_argument(
        "--baseline",
        metavar="NAME[@MACHINE]",
        default=DEFAULT_BASELINE,
        help=f"which baseline (default: {DEFAULT_BASELINE}, of every machine that has it)",
    )


def terminal_width() -> int:
    """How many columns the output may take."""
    return max(shutil.get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 24)).columns, 40)


def chosen_storage(location: str | None) -> Storage:
    """Open the storage at `location`, or the nearest one upwards. Raises CommandError where there is none."""
    if location is not None:
        if "://" not in location and not Path(location).expanduser().is_dir():
            raise CommandError(f"--storage {location}: there is no such folder")
        return open_storage(location)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / STORAGE_FOLDER).is_dir():
            return open_storage(folder / STORAGE_FOLDER)
    raise CommandError(
        f"there is no {STORAGE_FOLDER} folder in {here} or above it: give --storage DIR, "
        "or save a baseline with pytest --gpuperf-save-baseline"
    )


def matches(benchmark: BenchmarkId, pattern: str) -> bool:
    """Whether a benchmark is meant by `-k PATTERN`: a part of its label, or all of it with `*` and `?` for the rest."""
    label, pattern = benchmark.label.lower(), pattern.lower()
    if "*" not in pattern and "?" not in pattern:
        return pattern in label
    # Not fnmatch: the brackets of a parametrised test are no character class.
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), label) is not None


def matching_machine(asked: str, known: Iterable[str]) -> str:
    """The machine key that `asked` (a key, a model, or a part that only one has) means. Raises CommandError."""
    keys = list(known)
    exact = Machine(model=asked, kind="").key
    if exact in keys:
        return exact
    found = [key for key in keys if asked.lower() in key.lower()]
    if len(found) == 1:
        return found[0]
    problem = "is not unique" if found else "has nothing stored"
    raise CommandError(f"machine {asked!r} {problem}: there is {listed(found or keys)}")


def baseline_places(storage: Storage, spec: str) -> list[tuple[str, str]]:
    """The (machine key, name) of every stored baseline that `NAME` or `NAME@MACHINE` means.

    Raises CommandError where there is none.
    """
    name, at, machine = spec.partition("@")
    holders = baselines.machines_with(storage, name)
    if not holders:
        raise CommandError(f"there is no baseline {name!r}: there is {listed(all_baselines(storage))}")
    if at:
        holders = (matching_machine(machine, holders),)
    return [(holder, name) for holder in holders]


def all_baselines(storage: Storage) -> list[str]:
    """Every stored baseline as `NAME@MACHINE`."""
    return [
        f"{name}@{machine}" for machine in baselines.machines(storage) for name in baselines.names(storage, machine)
    ]


def listed(names: Iterable[str]) -> str:
    """Say which there are: `a, b`, or `none`."""
    return ", ".join(names) or "none"
