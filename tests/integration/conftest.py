"""A suite of benchmarks on the scripted device, with a baseline that is measured once and copied into each test."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# As in the conftest above: what every run inside this process would import again.
import scipy.special
import scipy.stats

import pytest_gpuperf.session.roles
from pytest_gpuperf.store.codec import decode_baseline
from pytest_gpuperf.store.schema import Baseline

__all__ = ["pytest_gpuperf", "scipy"]

QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
QUICK_GATE = ("--gpuperf", "--gpuperf-confirm-runs=4")
"""Four fresh runs beside the session's own are the fewest that can fail a test."""

CONFTEST = '''
import json
import os
import pathlib

import pytest

from pytest_gpuperf.measure.backends.fake import FakeBackend

HERE = pathlib.Path(__file__).parent


class CountingBackend(FakeBackend):
    """Its processes are numbered, so that the noise of a story is the same whenever it is told."""

    process = None

    def noise(self):
        if self.process != os.getpid():
            self.process = os.getpid()
            with (HERE / "processes").open("ab") as file:
                file.write(b".")
                self.run = file.tell()
        return super().noise()


backend = CountingBackend(model=os.environ.get("SUITE_MODEL", "Fake GPU"))
times_us = json.loads((HERE / "times.json").read_text())


def pytest_gpuperf_make_backend(config, device):
    return backend


@pytest.fixture
def work():
    def work(name):
        backend.clock.advance_us(times_us.get(name, 100.0))
        return name

    return work
'''

SUITE = """
import pytest

OPS = [f"op{number}" for number in range(10)]


@pytest.mark.parametrize("op", OPS)
def test_op(gpubench, work, op):
    assert gpubench(work, op) == op


def test_other(gpubench, work):
    assert gpubench(work, "other") == "other"


def test_no_benchmark():
    pass
"""

BENCHMARKS = (*(f"test_suite.py::test_op[op{number}]" for number in range(10)), "test_suite.py::test_other")


class Suite:
    """A folder with a suite of benchmarks, and how to run it."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.path = pytester.path
        self.storage = self.path / ".gpuperf"

    def times(self, **times_us: float) -> None:
        """Say how long the scripted operations take; 100 us where nothing is said."""
        (self.path / "times.json").write_text(json.dumps(times_us))

    def write(self, name: str, text: str) -> None:
        """Write one of the suite's files."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def add(self, name: str, text: str) -> None:
        """Append to one of the suite's files."""
        with (self.path / name).open("a") as file:
            file.write(text)

    def replace(self, name: str, old: str, new: str) -> None:
        """Change one of the suite's files."""
        text = (self.path / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in this process."""
        return self._pytester.runpytest_inprocess(*QUIET, *arguments)

    def run_with_cache(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in this process, with pytest's cache."""
        return self._pytester.runpytest_inprocess("-p", "no:randomly", *arguments)

    def gate(self, *arguments: str) -> pytest.RunResult:
        """Measure, compare and fail what got slower."""
        return self.run(*QUICK_GATE, *arguments)

    def process(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in a process of its own."""
        return self._pytester.runpytest_subprocess(*QUIET, *arguments)

    def verdicts(self, *arguments: str) -> dict[str, str]:
        """Gate, and return each measured benchmark's verdict by its label."""
        self.gate("--gpuperf-json=verdicts.json", *arguments)
        return self.verdicts_in("verdicts.json")

    def json(self, name: str) -> Any:
        """Return what is in a JSON file, which must be strict."""
        return json.loads((self.path / name).read_text(), parse_constant=_refuse)

    def verdicts_in(self, name: str) -> dict[str, str]:
        """Return the verdicts in a file of --gpuperf-json."""
        return {
            outcome["benchmark"]["node_id"] + outcome["benchmark"].get("name", ""): outcome["decision"]["verdict"]
            for outcome in self.json(name)["outcomes"]
        }

    def baseline_file(self, name: str = "main", model: str = "Fake-GPU") -> Path:
        """Return where a baseline is stored."""
        return self.storage / "baselines" / model / f"{name}.json"

    def baseline(self, name: str = "main") -> Baseline:
        """Return a stored baseline."""
        return decode_baseline(self.baseline_file(name).read_bytes(), "the test's baseline")

    def entries(self, name: str = "main") -> dict[str, Any]:
        """Return a stored baseline's entries by their labels."""
        return {entry.benchmark.label: entry for entry in self.baseline(name).entries.values()}

    def junit(self, *arguments: str) -> tuple[pytest.RunResult, ElementTree.Element]:
        """Gate with a JUnit file, and return its one suite too."""
        result = self.gate("--junitxml=junit.xml", *arguments)
        return result, self.junit_suite()

    def junit_suite(self) -> ElementTree.Element:
        """Return the one suite of the JUnit file."""
        (suite,) = ElementTree.parse(self.path / "junit.xml").getroot()
        return suite


def told(result: pytest.RunResult) -> str:
    """Return what a run printed, on one line, as if the terminal were as wide as that."""
    return " ".join((result.stdout.str() + " " + result.stderr.str()).split())


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let all processes, this one too, share what one has compiled, away from the suites, whatever the environment."""
    folder = str(tmp_path_factory.mktemp("compiled"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", folder)
        patch.setattr(sys, "pycache_prefix", folder)
        yield


@pytest.fixture(scope="session")
def saved_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite and its baseline of ten runs."""
    path = tmp_path_factory.mktemp("saved-suite")
    (path / "pytest.ini").write_text("[pytest]\n")
    (path / "conftest.py").write_text(CONFTEST)
    (path / "test_suite.py").write_text(SUITE)
    (path / "times.json").write_text("{}")
    command = [sys.executable, "-m", "pytest", *QUIET, "--gpuperf-save-baseline"]
    done = subprocess.run(command, cwd=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return path


@pytest.fixture
def new_suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    """The suite before its baseline was saved."""
    suite = Suite(pytester)
    suite.write("pytest.ini", "[pytest]\n")
    suite.write("conftest.py", CONFTEST)
    suite.write("test_suite.py", SUITE)
    suite.times()
    return suite


@pytest.fixture
def suite(pytester: pytest.Pytester, saved_suite: Path) -> Suite:
    """The suite with its baseline."""
    shutil.copytree(saved_suite, pytester.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return Suite(pytester)


@pytest.fixture(name="told")
def _told() -> Callable[[pytest.RunResult], str]:
    """Return what gives the text that a run printed, whatever its lines."""
    return told
