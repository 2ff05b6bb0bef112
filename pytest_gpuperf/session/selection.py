"""Why a benchmark of the baseline was not measured: failed, skipped, deselected, or missing."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.report.accounting import Accounting, account
from pytest_gpuperf.session.ledger import Fate, Ledger, Selection
from pytest_gpuperf.store.schema import Entry

_NARROWING_OPTIONS = ("keyword", "markexpr", "lf", "deselect", "stepwise")


def sort_unmeasured(
    entries: Mapping[str, Entry], measured: Iterable[str], ledger: Ledger, selection: Selection, config: pytest.Config
) -> dict[str, list[str]]:
    """Sort the keys of the entries that were not measured by the reason: failed, skipped, deselected or missing."""
    done = set(measured)
    why = _Why(ledger.fates_by_stored_id(), selection, config)
    reasons: dict[str, list[str]] = {"failed": [], "skipped": [], "deselected": [], "missing": []}
    for key, entry in entries.items():
        if key not in done:
            reasons[why.of(entry.benchmark.node_id)].append(key)
    return reasons


def session_account(
    entries: Mapping[str, Entry], measured: Sequence[str], unmeasured: Mapping[str, Sequence[str]]
) -> Accounting:
    """Return the sum that shows that no benchmark was lost."""
    return account(list(entries), measured=measured, **unmeasured)


class _Why:
    def __init__(self, fates: Mapping[str, Fate], selection: Selection, config: pytest.Config) -> None:
        self._fates = fates
        self._collected = {BenchmarkId.of(node_id).node_id for node_id in selection.collected}
        self._deselected = {BenchmarkId.of(node_id).node_id for node_id in selection.deselected}
        self._narrowed = any(config.getoption(name, None) for name in _NARROWING_OPTIONS)
        self._scopes = [_Scope(argument, config) for argument in config.args]
        self._ignored = [_Scope(str(path), config) for path in config.getoption("ignore", None) or ()]
        self._ignored_globs = [str(glob) for glob in config.getoption("ignore_glob", None) or ()]
        self._base = Path(config.invocation_params.dir)
        self._root = Path(config.rootpath)

    def of(self, node_id: str) -> str:
        """The reason for one test, by its stored node id."""
        fate = self._fates.get(node_id)
        if fate in ("failed", "skipped"):
            return fate
        if fate == "passed":
            return "missing"  # the test ran, and did not measure this benchmark
        if node_id in self._deselected:
            return "deselected"
        if node_id in self._collected:
            return "missing"  # selected, and not run: the session stopped early
        # Not collected: renamed or removed if this session looked where it was, and did not only look for some tests.
        selected = any(scope.covers(node_id) for scope in self._scopes) and not self._is_ignored(node_id)
        return "missing" if selected and not self._narrowed else "deselected"

    def _is_ignored(self, node_id: str) -> bool:
        """Whether `--ignore` or `--ignore-glob` leave out the test's file or a folder that it is in."""
        file = self._root / node_id.partition("::")[0]
        globs = [os.path.join(self._base, glob) for glob in self._ignored_globs]  # noqa: PTH118 - keeps `..` and `*`
        return any(scope.covers(node_id) for scope in self._ignored) or any(
            fnmatch.fnmatch(str(place), glob) for place in (file, *file.parents) for glob in globs
        )


class _Scope:
    """What one argument of pytest selects: a folder, a file, or a test."""

    def __init__(self, argument: str, config: pytest.Config) -> None:
        path, _, self._names = argument.partition("::")
        absolute = (Path(config.invocation_params.dir) / path).resolve()
        self._path = os.path.relpath(absolute, Path(config.rootpath).resolve()).replace(os.sep, "/")

    def covers(self, node_id: str) -> bool:
        """Whether the test would be selected by this argument."""
        path, _, names = node_id.partition("::")
        if self._names:
            same = names == self._names or names.startswith((f"{self._names}::", f"{self._names}["))
            return path == self._path and same
        return self._path == "." or path == self._path or path.startswith(f"{self._path}/")
