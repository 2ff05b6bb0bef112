"""Ranges and profiles of the benchmarks of a session, where they were asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.checks.nvtx import NvtxRanges
from pytest_gpuperf.checks.profile_files import write_profile
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.settings import SessionSettings


class Tracing:
    """What --gpuperf-nvtx and --gpuperf-profile ask for; nothing without them."""

    def __init__(self, settings: SessionSettings, folder: Path, backend: Backend) -> None:
        self._settings = settings
        self._folder = folder
        self._device = backend.device

    def refuse_what_cannot_be_marked(self) -> None:
        """Raise `pytest.UsageError` where ranges are asked for and no timeline would show them."""
        if self._settings.nvtx and not self._on_gpu:
            raise pytest.UsageError(f"--gpuperf-nvtx: there is no GPU timeline on {self._device}")

    def range(self, name: str) -> AbstractContextManager[None]:
        """Mark a benchmark or one of its phases."""
        return nullcontext() if self._ranges is None else self._ranges.range(name)

    def each_trial(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the callable with every call marked."""
        return call if self._ranges is None else self._ranges.around_each(call)

    def profile(self, benchmark: BenchmarkId, target: Target) -> None:
        """Profile some calls into files named after the benchmark."""
        if self._settings.profile is None:
            return
        import torch

        folder = self._folder / self._settings.profile
        try:
            write_profile(torch, target.bind, folder, benchmark.key, cuda=self._on_gpu)
        except OSError as error:
            raise pytest.UsageError(f"--gpuperf-profile={self._settings.profile}: {error.strerror or error}") from None

    @functools.cached_property
    def _ranges(self) -> NvtxRanges | None:
        if not self._settings.nvtx:
            return None
        import torch

        return NvtxRanges(torch)

    @property
    def _on_gpu(self) -> bool:
        return self._device.startswith("cuda")
