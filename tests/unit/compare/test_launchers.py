"""Real processes as workers: how they are started, ended and spoken of."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from pytest_gpuperf.compare.launchers import (
    ForkLauncher,
    ForkUnavailableError,
    FreshCommand,
    InterpreterLauncher,
    described,
    end_group,
    tail,
)


def command(code: str, **changes: object) -> FreshCommand:
    """Return a command that runs some Python in place of pytest."""
    return FreshCommand(head=(sys.executable, "-c", code), arguments=(), cwd=str(Path.cwd()), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("returncode", "said"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-250, "was killed by signal 250"),
        (None, "ended with exit code None"),
    ],
)
def test_endings(returncode: int | None, said: str) -> None:
    assert described(returncode) == said


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), ["pytest", "--new"]),
        (("-k", "x"), ["pytest", "-k", "x", "--new"]),
        (("-x", "--", "--odd"), ["pytest", "-x", "--new", "--", "--odd"]),
    ],
)
def test_an_option_goes_before_two_dashes(arguments: tuple[str, ...], line: list[str]) -> None:
    assert FreshCommand(head=("pytest",), arguments=arguments, cwd="/").line("--new") == line


def test_an_interpreter_gets_its_folder_place_and_environment(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.argv[1:], os.environ['MINE'], os.getcwd()); sys.exit(5)"
    fresh = FreshCommand(head=(sys.executable, "-c", code), arguments=("a",), cwd="/", environment={"MINE": "yes"})
    handle = InterpreterLauncher(fresh).launch(tmp_path)
    while not handle.ended():
        pass
    assert "ended with exit code 5" in handle.ending()
    assert f"['a', '--gpuperf-fresh-worker={tmp_path}'] yes /" in handle.ending()


def test_ending_a_worker_takes_what_it_started_along(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, pathlib, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        f"pathlib.Path({str(tmp_path / 'child')!r}).write_text(str(child.pid) + '.')\n"
        "time.sleep(1000)"
    )
    handle = InterpreterLauncher(command(code)).launch(tmp_path)
    written = tmp_path / "child"
    while not (written.exists() and written.read_text().endswith(".")):
        assert not handle.ended()
    handle.end()
    assert "was killed by SIGKILL" in handle.ending()
    handle.end()
    child = int(written.read_text()[:-1])
    # The orphan is a zombie until whoever adopts it looks, but it runs no more.
    state = Path(f"/proc/{child}/stat")
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        pass


def test_the_end_of_the_output_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(100)) + b"\xff last")
    quoted = tail(log).splitlines()
    assert len(quoted) == 25
    assert quoted[0] == "    line 76"
    assert quoted[-1] == "    \ufffd last"
    log.write_bytes(b"")
    assert tail(log) == "    (nothing)"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; print('cannot'); sys.exit(4)", "its process ended with exit code 4"),
        (
            "import sys, pathlib, json\n"
            "home = pathlib.Path(sys.argv[1].partition('=')[2])\n"
            "(home / 'ready.json').write_text(json.dumps({'refusal': 'CUDA is in use'}))\n"
            "import time; time.sleep(1000)",
            "CUDA is in use",
        ),
    ],
)
def test_a_server_that_cannot_be_forked_from(code: str, why: str) -> None:
    with pytest.raises(ForkUnavailableError, match=why):
        ForkLauncher(command(code), 60.0).await_ready()


def test_a_server_that_is_late() -> None:
    with pytest.raises(ForkUnavailableError, match="was not ready within 0 s"):
        ForkLauncher(command("import time; time.sleep(1000)"), 0.0).await_ready()


def test_ending_twice_is_no_harm(tmp_path: Path) -> None:
    process = command("import time; time.sleep(1000)").start("--x", tmp_path / "log")
    end_group(process)
    end_group(process)
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
