"""What the parts of a session share: settings, the measuring end, the baseline's gate, and where things are stored."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from pytest_gpuperf.compare.worktree import RevisionError, Worktree
from pytest_gpuperf.options import Options
from pytest_gpuperf.session.bench import Bench
from pytest_gpuperf.session.failing import Fails, fails_by
from pytest_gpuperf.session.gate import Gate
from pytest_gpuperf.session.rounds import FreshRounds
from pytest_gpuperf.settings import SessionSettings, storing_option
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.errors import StoreError
from pytest_gpuperf.store.schema import Baseline
from pytest_gpuperf.store.storage import Storage, open_storage

STORAGE_FOLDER = ".gpuperf"


class Context:
    """Made once a session; its parts are made when first asked for."""

    def __init__(self, config: pytest.Config, options: Options, bench: Bench) -> None:
        self.config = config
        self.settings: SessionSettings = options.session
        self.bench = bench
        self.session_id = secrets.token_hex(4)
        self.collected: Callable[[], Sequence[str]] = tuple
        """Gives the node ids of the tests to run, once collection is over."""

    @functools.cached_property
    def storage(self) -> Storage:
        """Where baselines and session records are kept."""
        location = self.settings.storage
        anchor = self.config.inipath.parent if self.config.inipath else self.config.rootpath
        place = str(anchor / STORAGE_FOLDER) if location is None else _anchored(location, self.config)
        made: Storage | None = self.config.hook.pytest_gpuperf_make_storage(config=self.config, location=place)
        if made is not None:
            return made
        try:
            return open_storage(place)
        except StoreError as error:
            raise pytest.UsageError(str(error)) from None

    @property
    def baseline_name(self) -> str:
        """What this session compares with: the baseline that it writes to, where it only writes, or a revision."""
        if self.settings.against is not None:
            return f"{self.settings.against} ({self.worktree.commit[:9]})"
        return self.settings.stored_name or self.settings.baseline if not self.settings.gate else self.settings.baseline

    @functools.cached_property
    def gate(self) -> Gate:
        """The gate on the stored baseline; raises `pytest.UsageError` for one that cannot be used."""
        name = self.baseline_name
        if self.settings.against is not None:
            # Measured at the session's end; until then there is nothing to compare with.
            return self.gate_on(None, f"revision {name}")
        try:
            key = self.bench.machine.key
            baseline: Baseline | None = baselines.load(self.storage, key, name)
            others = [machine for machine in baselines.machines_with(self.storage, name) if machine != key]
        except StoreError as error:
            raise pytest.UsageError(str(error)) from None
        return self.gate_on(baseline, f"baseline {name}", other_models=others)

    def gate_on(
        self,
        baseline: Baseline | None,
        name: str,
        *,
        other_models: Sequence[str] = (),
        unusable: Mapping[str, str] | None = None,
    ) -> Gate:
        """Return a gate on the given baseline under this session's settings."""
        return Gate(
            baseline,
            name=name,
            collected=lambda: self.collected(),
            other_models=other_models,
            confirm_runs=self.settings.confirm_runs,
            interleaved=self.settings.against is not None,
            paced=self.bench.machine.kind == "cpu",
            unusable=unusable,
            save_option=storing_option("save", self.settings.baseline),
        )

    @functools.cached_property
    def worktree(self) -> Worktree:
        """The revision of --gpuperf-against, checked out; removed by `close`."""
        try:
            return Worktree(self.settings.against or "HEAD", self.config.rootpath)
        except RevisionError as error:
            raise pytest.UsageError(str(error)) from None

    @property
    def json_path(self) -> Path | None:
        """Where --gpuperf-json asks to write, relative to where pytest was started."""
        given = self.settings.json
        return None if given is None else Path(self.config.invocation_params.dir) / Path(given).expanduser()

    def refuse_what_cannot_be_done(self) -> None:
        """Raise `pytest.UsageError`, before anything is measured, where it could not be marked, or kept in the end."""
        self.bench.tracing.refuse_what_cannot_be_marked()
        path, name = self.json_path, self.settings.stored_name
        if path is not None:
            with json_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if name is not None:
            try:
                with self.storage.locked(baselines.place_of(self.bench.machine.key, name)):
                    pass
            except StoreError as error:
                raise pytest.UsageError(str(error)) from None

    @functools.cached_property
    def rounds(self) -> FreshRounds:
        """What starts fresh processes."""
        return FreshRounds(self.config, self.settings, lambda: self.bench.machine.kind)

    def close(self) -> None:
        """Release the device and end the processes that this session keeps."""
        if "rounds" in self.__dict__:
            self.rounds.close()
        if "worktree" in self.__dict__:
            self.worktree.remove()
        self.bench.close()

    @functools.cached_property
    def fails(self) -> Fails:
        """What says whether an outcome fails its test."""
        return fails_by(self.config, self.settings.failing_verdicts)

    def plain_settings(self) -> dict[str, str | int | float | bool | None]:
        """The session's settings as plain values, for its record."""
        values = {field.name: getattr(self.settings, field.name) for field in fields(self.settings)}
        return {name: ",".join(value) if isinstance(value, tuple) else value for name, value in values.items()}


@contextlib.contextmanager
def json_errors(path: Path) -> Iterator[None]:
    """Tell of a failure to write the file of --gpuperf-json as of a wrong option."""
    try:
        yield
    except OSError as error:
        raise pytest.UsageError(f"--gpuperf-json: {path} cannot be written ({error.strerror})") from None


def _anchored(location: str, config: pytest.Config) -> str:
    if "://" in location:
        return location
    # As for pytest's own paths: an ini file's is relative to that file, the command line's to where it was given.
    on_command_line = config.getoption("gpuperf_storage") is not None
    base = config.invocation_params.dir if on_command_line or config.inipath is None else config.inipath.parent
    return str(Path(base) / Path(location).expanduser())
