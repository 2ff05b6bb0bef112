"""Extension points: hooks that a conftest.py or another plugin can implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_gpuperf.compare.outcome import Outcome
    from pytest_gpuperf.measure.backends.base import Backend, Timer
    from pytest_gpuperf.measure.machine import Machine
    from pytest_gpuperf.settings import BenchmarkSettings
    from pytest_gpuperf.store.storage import Storage


@pytest.hookspec(firstresult=True)
def pytest_gpuperf_make_backend(config: pytest.Config, device: str | None) -> Backend | None:
    """Return the back end that measures on `device` (None: not stated), or None for the built-in ones."""


@pytest.hookspec(firstresult=True)
def pytest_gpuperf_make_timer(config: pytest.Config, backend: Backend, settings: BenchmarkSettings) -> Timer | None:
    """Return the timer for a benchmark with these settings, or None for the back end's own."""


@pytest.hookspec
def pytest_gpuperf_machine_info(config: pytest.Config, machine: Machine) -> dict[str, str] | None:
    """Return facts (name: value) to record beside the machine's own; they never decide a comparison."""


@pytest.hookspec(firstresult=True)
def pytest_gpuperf_make_storage(config: pytest.Config, location: str) -> Storage | None:
    """Return the storage for `location`, or None for the built-in ones."""


@pytest.hookspec
def pytest_gpuperf_benchmark_finished(config: pytest.Config, outcome: Outcome) -> None:
    """Called once a benchmark's verdict is final, in the process that reports it."""


@pytest.hookspec(firstresult=True)
def pytest_gpuperf_verdict(config: pytest.Config, outcome: Outcome) -> bool | None:
    """Return whether the outcome's verdict fails its test, or None to leave it to --gpuperf-fail-on."""


@pytest.hookspec
def pytest_gpuperf_report_section(config: pytest.Config, outcomes: list[Outcome]) -> list[str] | None:
    """Return lines to print after the table."""
