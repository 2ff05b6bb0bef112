"""However pytest is started, its fresh processes run the same tests in the same way, and leave nothing behind."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_gpuperf.compare import fresh

SLOWER = {"other": 130.0}
QUIET = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
STARTS = ["fork", "interpreter"]


def regressed(result: pytest.RunResult, node_id: str = "*test_suite.py::test_other") -> None:
    """Check that just this test failed, by measured runs and not by a problem with the fresh processes."""
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["slower by * over 10 + 5 runs, p = *", f"FAILED {node_id} - slower by *"])


@pytest.fixture
def slower(suite):
    """The suite with one operation that got slower."""
    suite.times(**SLOWER)
    return suite


@pytest.mark.parametrize("start", STARTS)
def test_both_ways_to_start(slower, start: str) -> None:
    regressed(slower.gate("test_suite.py::test_other", f"--gpuperf-fresh-start={start}"))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "-m", "pytest"], id="module"),
        pytest.param([str(Path(sys.executable).with_name("pytest"))], id="script"),
        pytest.param([sys.executable, "-O", "-W", "ignore::UserWarning", "-m", "pytest"], id="flags"),
        pytest.param([sys.executable, "-c", "import pytest, sys; sys.exit(pytest.main(sys.argv[1:]))"], id="main"),
    ],
)
def test_however_pytest_is_started(suite, pytester: pytest.Pytester, command: list[str]) -> None:
    suite.add("conftest.py", "\ndef flags(level):\n    with (HERE / 'levels').open('a') as f: f.write(str(level))\n")
    suite.replace(
        "test_suite.py",
        'assert gpubench(work, "other") == "other"',
        'import sys, conftest\n    conftest.flags(sys.flags.optimize)\n    gpubench(work, "other")',
    )
    options = ("--gpuperf-fresh-start=interpreter", "--gpuperf-save-baseline=new", "--gpuperf-runs=2")
    result = pytester.run(*command, *QUIET, *options, "test_suite.py::test_other")
    assert result.ret == 0
    assert len(suite.entries("new")["test_suite.py::test_other"].runs) == 2
    assert (suite.path / "levels").read_text() == ("11" if "-O" in command else "00")


def test_a_conftest_that_adds_options_and_requires_them(slower) -> None:
    slower.write("sub/pytest.ini", "[pytest]\n")
    slower.add(
        "conftest.py",
        "\ndef pytest_addoption(parser):\n    parser.addoption('--needed', required=True)\n"
        "\n@pytest.fixture(autouse=True)\ndef needed(request):\n"
        "    assert request.config.getoption('needed') == 'x y'\n",
    )
    regressed(slower.gate("--needed", "x y", "test_suite.py::test_other"))


@pytest.mark.parametrize("arguments", [["--gpuperf-save-baseline", "tests"], ["--gpuperf-extend-baseline", "tests"]])
def test_a_bare_storing_option_before_a_folder_with_a_conftest(new_suite, arguments: list[str]) -> None:
    for name in ("conftest.py", "test_suite.py", "times.json"):
        (new_suite.path / "tests").mkdir(exist_ok=True)
        (new_suite.path / name).rename(new_suite.path / "tests" / name)
    new_suite.replace(
        "tests/conftest.py",
        "@pytest.fixture",
        "def pytest_addoption(parser):\n    parser.addoption('--mine')\n\n@pytest.fixture",
    )
    result = new_suite.run(*arguments, "--mine=1", "--gpuperf-runs=2", "-k", "other")
    assert result.ret == 0
    assert list(new_suite.entries()) == ["tests/test_suite.py::test_other"]


def test_in_a_subdirectory_of_rootdir(slower, monkeypatch: pytest.MonkeyPatch) -> None:
    (slower.path / "below").mkdir()
    monkeypatch.chdir(slower.path / "below")
    regressed(slower.gate("../test_suite.py::test_other"))
    assert not (slower.path / "below" / ".gpuperf").exists()


def test_an_explicit_rootdir(slower, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    regressed(slower.gate(f"--rootdir={slower.path}", f"{slower.path}/test_suite.py::test_other"))


def test_two_dashes_end_the_options(slower) -> None:
    regressed(slower.gate("--", "test_suite.py::test_other"))


def test_options_from_the_environment(slower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--gpuperf --gpuperf-confirm-runs=4 -k other")
    regressed(slower.run())
    monkeypatch.setenv("PYTEST_ADDOPTS", "-n 2")
    regressed(slower.gate("test_suite.py::test_other", "-n0"))


def test_options_from_the_ini_file(slower) -> None:
    slower.write("pytest.ini", "[pytest]\naddopts = --gpuperf --gpuperf-confirm-runs=4 -k other -v --maxfail=3\n")
    regressed(slower.run())


@pytest.mark.parametrize(
    "plugin", ["terminal", "junitxml", "randomly", "faulthandler", "logging", "capture", "warnings"]
)
def test_without_a_plugin_of_pytest(slower, plugin: str) -> None:
    result = slower.gate("test_suite.py::test_other", "-p", f"no:{plugin}")
    assert result.ret == 1
    if plugin != "terminal":
        regressed(result)


def test_with_a_plugin_that_shuffles(slower, pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_randomly")
    result = pytester.runpytest_subprocess("-p", "randomly", "--gpuperf", "--gpuperf-confirm-runs=4")
    assert result.ret == 1
    result.assert_outcomes(failed=1, passed=11)
    result.stdout.fnmatch_lines(["11 measured = 11 in the baseline + 0 new"])


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_every_import_mode(slower, mode: str) -> None:
    regressed(slower.gate("test_suite.py::test_other", f"--import-mode={mode}"))


@pytest.mark.parametrize(
    "options",
    [
        ["-x"],
        ["--maxfail=1"],
        ["--stepwise"],
        ["--capture=no"],
        ["-vv"],
        ["-qq"],
        ["--durations=3"],
        ["--strict-markers", "--strict-config"],
        ["-W", "error"],
        ["--gpuperf-only"],
        ["--tb=line"],
        ["--no-header", "--no-summary"],
        ["--color=yes"],
    ],
    ids=" ".join,
)
def test_with_options_of_pytest(slower, options: list[str]) -> None:
    report = slower.run_with_cache(
        "--gpuperf", "--gpuperf-confirm-runs=4", "test_suite.py::test_other", "--junitxml=j.xml", *options
    )
    assert report.ret == (2 if "--stepwise" in options else 1)  # as pytest itself has it
    text = (slower.path / "j.xml").read_text()
    assert text.count("<failure") == 1
    assert "slower by" in text
    assert "could not be confirmed" not in text


def test_selected_by_expressions(slower) -> None:
    slower.replace("test_suite.py", "def test_other", "@pytest.mark.skipif(False, reason='')\ndef test_other")
    for selection in (["-k", "other"], ["-m", "skipif"], ["--deselect=test_suite.py::test_op"]):
        result = slower.gate(*selection)
        assert result.ret == 1
        result.stdout.fnmatch_lines(["FAILED test_suite.py::test_other - slower by *"])


def test_the_sessions_own_files_are_left_alone(slower) -> None:
    slower.add("test_suite.py", "\ndef test_folder(gpubench, work, tmp_path):\n    gpubench(work, 'other')\n")
    (slower.path / "old").mkdir()
    options = ("--log-file=run.log", "--log-file-level=INFO", "--basetemp=old", "--junitxml=j.xml")
    slower.replace("conftest.py", "import pytest\n", "import logging\nimport pytest\n")
    slower.replace("conftest.py", "    def work(name):\n", "    logging.warning('here')\n\n    def work(name):\n")
    result = slower.gate("test_suite.py::test_folder", "test_suite.py::test_other", *options)
    assert result.ret == 1
    assert (slower.path / "run.log").read_text().count("here") == 2
    assert (slower.path / "old" / "test_folder0").exists()
    assert (slower.path / "j.xml").read_text().count("<testcase") == 2


@pytest.mark.parametrize("start", STARTS)
def test_nothing_is_left_in_the_temporary_folder(
    suite, start: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    options = (f"--gpuperf-fresh-start={start}", "--gpuperf-save-baseline=new", "--gpuperf-runs=2")
    assert suite.run("test_suite.py::test_other", *options).ret == 0
    left = {path.name for path in tmp_path.iterdir()}
    assert {name for name in left if not name.startswith(("gpuperf-locks", "pytest-of"))} == set()


def test_the_source_tree_may_be_read_only(slower, tmp_path: Path) -> None:
    # Nothing is written there; a root user cannot be kept from writing, so that what is written is looked for.
    (slower.path / ".gpuperf").rename(tmp_path / "storage")
    (slower.path / "processes").unlink()
    slower.replace("conftest.py", '(HERE / "processes")', f"pathlib.Path({str(tmp_path / 'processes')!r})")
    before = sorted(slower.path.rglob("*"))
    result = slower.gate(
        f"--gpuperf-storage={tmp_path / 'storage'}",
        "test_suite.py::test_other",
    )
    regressed(result)
    assert sorted(slower.path.rglob("*")) == before


def test_a_failure_in_a_fresh_process_only(slower) -> None:
    slower.replace(
        "test_suite.py",
        'assert gpubench(work, "other") == "other"',
        "from conftest import backend\n"
        "    assert backend.process is None or backend.run <= FIRST, 'not \\ud800 here'\n"
        '    gpubench(work, "other")',
    )
    number = len((slower.path / "processes").read_bytes())
    slower.add("test_suite.py", f"\nFIRST = {number + 1}\n")
    slower.times(other=130.0, op1=130.0)
    slower.replace("conftest.py", "backend = CountingBackend", "backend = CountingBackend")
    slower.replace(
        "test_suite.py", "from conftest import backend\n", "from conftest import backend\n    backend.noise()\n"
    )
    result, junit = slower.junit("-k", "other or op1")
    assert result.ret == 1
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*FAILED test_suite.py::test_other - test_suite.py::test_other could not be con*",
        ]
    )
    result.stdout.fnmatch_lines(["*the test failed in a fresh process: *", "*AssertionError: not \\ud800 here*"])
    result.stdout.fnmatch_lines(["FAILED test_suite.py::test_op[[]op1[]] - slower by *"])
    assert junit.get("failures") == "2"


@pytest.mark.parametrize("start", STARTS)
def test_what_pytest_wraps_around_a_test_is_there_too(suite, start: str) -> None:
    suite.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
    suite.replace(
        "test_suite.py",
        "def test_other(gpubench, work):\n",
        "def test_other(gpubench, work, pytestconfig):\n"
        "    import warnings\n"
        "    if pytestconfig.getoption('gpuperf_fresh_worker') or pytestconfig.getoption('gpuperf_fork_server'):\n"
        "        warnings.warn('only here')\n",
    )
    options = (f"--gpuperf-fresh-start={start}", "--gpuperf-save-baseline=new", "--gpuperf-runs=2")
    result = suite.run("test_suite.py::test_other", *options)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*could not be confirmed: the test failed in a fresh process: UserWarning: only here",
            "*UserWarning: only here",
        ]
    )


def test_a_test_that_is_skipped_in_a_fresh_process_says_why_and_where(suite) -> None:
    suite.replace(
        "test_suite.py",
        "def test_other(gpubench, work):\n",
        "def test_other(gpubench, work, pytestconfig):\n"
        "    if pytestconfig.getoption('gpuperf_fresh_worker') or pytestconfig.getoption('gpuperf_fork_server'):\n"
        "        pytest.skip('not today')\n",
    )
    suite.times(other=130.0)
    result = suite.gate("test_suite.py::test_other")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*was skipped in a fresh process: not today (*test_suite.py:*)"])


def test_a_time_limit_is_not_for_the_confirmation(suite) -> None:
    pytest.importorskip("pytest_timeout")
    suite.add(
        "conftest.py",
        "\nclass Watch:\n"
        "    def pytest_timeout_cancel_timer(self, item):\n"
        "        with (HERE / 'cancelled').open('a') as file:\n            file.write('.')\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(Watch())\n",
    )
    suite.times(other=130.0)
    regressed(suite.gate("test_suite.py::test_other", "-x", "--timeout=600"))
    in_confirmation_and_in_the_end = 2
    assert len((suite.path / "cancelled").read_text()) >= in_confirmation_and_in_the_end


DEATHS = {
    "exit": "os._exit(7)",
    "kill": "os.kill(os.getpid(), 9)",
    # The hours go by once the session has seen the test begin.
    "hang": "import time\n        time.sleep(1)\n        open('hanging', 'a').write('.')\n        time.sleep(1000)",
}
HOW = {
    "exit": "*ended with exit code 7*",
    "kill": "*was killed by SIGKILL*",
    "hang": "*gave no sign of life within its time limit (--gpuperf-fresh-timeout) and was ended*",
}


@pytest.fixture
def impatient(suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thousand hours go by whenever a process begins to hang."""

    def monotonic() -> float:
        hanging = suite.path / "hanging"
        hours = 1000 * hanging.stat().st_size if hanging.exists() else 0
        return time.monotonic() + 3600 * hours

    monkeypatch.setattr(fresh, "time", SimpleNamespace(monotonic=monotonic, sleep=time.sleep))


@pytest.mark.parametrize(
    ("death", "start"),
    [
        ("exit", "fork"),
        ("kill", "interpreter"),
        ("hang", "fork"),
        ("hang", "interpreter"),
        pytest.param("exit", "interpreter", marks=pytest.mark.slow),
        pytest.param("kill", "fork", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_a_process_that_dies_or_hangs_fails_its_own_test_only(slower, death: str, start: str) -> None:
    slower.times(other=130.0, op1=130.0)
    slower.replace(
        "test_suite.py",
        "def test_other(gpubench, work):\n",
        "def test_other(gpubench, work, pytestconfig):\n"
        "    import os\n"
        "    if pytestconfig.getoption('gpuperf_fresh_worker') or pytestconfig.getoption('gpuperf_fork_server'):\n"
        f"        {DEATHS[death]}\n",
    )
    result = slower.gate(f"--gpuperf-fresh-start={start}", "-k", "other or op1")
    assert result.ret == 1
    result.assert_outcomes(failed=2, deselected=10)
    result.stdout.fnmatch_lines(["test_suite.py::test_other could not be confirmed: " + HOW[death]])
    result.stdout.fnmatch_lines(["FAILED test_suite.py::test_op[[]op1[]] - slower by *"])
    result.stdout.fnmatch_lines(["2 measured + 9 deselected = 11 in the baseline + 0 new"])


def test_a_suite_that_fresh_processes_cannot_import(slower) -> None:
    slower.add(
        "test_suite.py",
        "\nimport sys\nif any('fresh-worker' in word or 'fork-server' in word for word in sys.argv):\n"
        "    raise ImportError('not in a fresh process')\n",
    )
    result = slower.gate("test_suite.py::test_other")
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*could not be confirmed: *", "*not in a fresh process*"])


def test_saving_fails_the_tests_that_fail_in_fresh_processes(new_suite) -> None:
    new_suite.add(
        "test_suite.py",
        "\ndef test_once(gpubench, work, pytestconfig):\n"
        "    assert not pytestconfig.getoption('gpuperf_fork_server')\n"
        "    assert not pytestconfig.getoption('gpuperf_fresh_worker')\n"
        "    gpubench(work, 'once')\n",
    )
    result = new_suite.run("--gpuperf-save-baseline", "--gpuperf-runs=2", "-k", "once or other", "--junitxml=junit.xml")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*Not stored (did not pass in every fresh process): test_suite.py::test_once.*", "FAILED *::test_once - *"]
    )
    assert list(new_suite.entries()) == ["test_suite.py::test_other"]
    assert new_suite.junit_suite().get("failures") == "1"
