"""What goes wrong in a call, on the device or at the keyboard ends in one clear message, and nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

OTHER = "test_suite.py::test_other"
RAISING = """
def test_raising(gpubench, work):
    calls = iter(range(10**9))

    def call():
        work("raising")
        if next(calls) == {last}:
            raise OSError("no more")

    gpubench.run(call{more})
"""


@pytest.mark.parametrize(
    ("last", "when"), [(0, "the first call"), (1, "preparing"), (8, "warm-up"), (60, "the timed region")]
)
@pytest.mark.parametrize(
    "more", ["", ", setup=lambda: ((), {})", ", reference=lambda: None"], ids=["", "setup", "reference"]
)
def test_a_callable_that_raises_fails_with_its_own_traceback(suite, last: int, when: str, more: str) -> None:
    suite.write("test_raising.py", RAISING.format(last=last, more=more))
    before = suite.baseline_file().read_bytes()
    result = suite.run("--gpuperf", "--gpuperf-save-baseline", "--gpuperf-runs=1", "test_raising.py")
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E  *OSError: no more", "test_raising.py:*: OSError", "FAILED *::test_raising - OSError*"]
    )
    # The traceback is the test's and the callable's: how they are timed is no news to anybody.
    assert "pytest_gpuperf" not in result.stdout.str().replace("pytest_gpuperf.gpubench.GpuBench object", "")
    assert suite.baseline_file().read_bytes() == before


def test_the_plain_session_shows_the_same_traceback(suite) -> None:
    suite.write("test_raising.py", RAISING.format(last=0, more=""))
    result = suite.run("test_raising.py")
    assert result.ret == 1
    assert "pytest_gpuperf" not in result.stdout.str().replace("pytest_gpuperf.gpubench.GpuBench object", "")


def test_what_cannot_be_measured_says_so_without_our_traceback(suite) -> None:
    suite.write("test_idle.py", "def test_idle(gpubench):\n    gpubench(lambda: None)\n")
    result = suite.gate("test_idle.py")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*NoGpuWorkError: no GPU work recorded on *", "FAILED test_idle.py::test_idle - *"])
    assert "measure/" not in result.stdout.str()
    assert "measure/" in suite.gate("test_idle.py", "--full-trace").stdout.str()
    assert suite.run("test_idle.py").ret == 0


BREAKING = """
from pytest_gpuperf.measure.backends.fake import FakeDeviceError

def test_breaks(gpubench, work):
    def broken():
        raise FakeDeviceError("illegal memory access")
    gpubench(broken)
"""


def test_a_lost_device_stops_the_session_with_one_message(suite) -> None:
    suite.write("test_broken.py", BREAKING)
    suite.write("test_after.py", "def test_after(gpubench, work):\n    gpubench(work, 'after')\n")
    result, junit = suite.junit("test_broken.py", "test_after.py", OTHER)
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    assert junit.get("failures") == "1"
    text = result.stdout.str()
    assert text.count("is in an error state since") == 1
    result.stdout.fnmatch_lines(
        ["*Fake GPU is in an error state since test_broken.py::test_breaks (FakeDeviceError: illegal memory access)*"]
    )
    result.stdout.fnmatch_lines(["0 measured + 10 deselected + 1 missing = 11 in the baseline + 0 new"])
    assert suite.gate("--gpuperf-strict", "test_broken.py", OTHER).ret == 1


ENDLESS = """
import atexit

def test_endless(gpubench, work):
    from conftest import backend
    atexit.register(print, "AT", "EXIT")
    gpubench(lambda: backend.clock.hang())
"""


def test_work_without_an_end_fails_the_test_and_ends_the_session_and_the_process(suite) -> None:
    # A process with such a kernel waits for it at its exit: nothing that is registered for that may run.
    suite.write("test_endless.py", ENDLESS)
    suite.write("test_after.py", "def test_after(gpubench, work):\n    gpubench(work, 'after')\n")
    tests = (OTHER, "test_endless.py", "test_after.py")
    result = suite.process("--gpuperf", "--gpuperf-hang-timeout=3", "--junitxml=junit.xml", *tests)
    assert result.ret == 1
    junit = suite.junit_suite()
    assert junit.get("failures") == "1"
    assert junit.get("tests") == "2"
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        ["*Fake GPU was not done with the work of test_endless.py::test_endless after 3 s (--gpuperf-hang-timeout)*"]
    )
    result.stdout.fnmatch_lines(["1 measured + 10 deselected = 11 in the baseline + 0 new"])
    assert "AT EXIT" not in text
    assert "nothing more can be measured in this process" in text


def test_work_without_an_end_is_only_waited_for_when_measuring(suite) -> None:
    suite.write("test_endless.py", ENDLESS)
    result = suite.process("test_endless.py")
    assert result.ret == 0
    assert "AT EXIT" in result.stdout.str()


def test_a_lost_device_does_not_lose_the_tests_before_it(suite) -> None:
    suite.write("test_broken.py", BREAKING)
    suite.times(other=130.0)
    result = suite.gate(OTHER, "test_broken.py")
    assert result.ret == 1
    outcomes = result.parseoutcomes()
    assert sum(outcomes.values()) == 2
    result.stdout.fnmatch_lines(["*test_other *", "1 measured + 10 deselected = 11 in the baseline + 0 new"])


def test_a_plain_session_does_not_care_about_the_device(suite) -> None:
    suite.write("test_broken.py", BREAKING)
    result = suite.run("test_broken.py", OTHER)
    result.assert_outcomes(failed=1, passed=1)


def children(parent: int) -> list[int]:
    """Return the processes that a process has started and that are still there."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def descendants(parent: int) -> list[int]:
    """Return the children of a process, and theirs."""
    own = children(parent)
    return own + [pid for child in own for pid in descendants(child)]


def alive(pid: int) -> bool:
    """Say whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


Interrupt = Callable[..., tuple[int, str]]


def heed_interrupts() -> None:
    """Undo what a shell does to its background jobs, which these tests may be part of: they ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def interrupted(suite, tmp_path: Path) -> Interrupt:
    """Return what starts a session and sends it a signal when a file appears, having looked who its children are."""

    def run(*arguments: str, how: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments]
        with (tmp_path / "out").open("wb") as out:
            process = subprocess.Popen(command, cwd=suite.path, stdout=out, stderr=out, preexec_fn=heed_interrupts)
        deadline = time.monotonic() + 120
        while not (suite.path / "now").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        family = descendants(process.pid)
        process.send_signal(how)
        code = process.wait(timeout=60)
        deadline = time.monotonic() + 10
        while any(map(alive, family)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not [pid for pid in family if alive(pid)]
        return code, (tmp_path / "out").read_text()

    return run


WAITING = """
import time, pathlib
def test_waiting(gpubench, work, pytestconfig):
    fresh = pytestconfig.getoption("gpuperf_fresh_worker") or pytestconfig.getoption("gpuperf_fork_server")
    gpubench(work, "waiting")
    if bool(fresh) == {fresh}:
        pathlib.Path(__file__).with_name("now").touch()
        time.sleep(100)
"""


def files(suite) -> list[str]:
    """Return what lies in the storage."""
    return sorted(str(path.relative_to(suite.storage)) for path in suite.storage.rglob("*") if path.is_file())


@pytest.mark.parametrize("fresh", [False, True], ids=["in a test", "in a fresh process"])
@pytest.mark.parametrize("start", ["fork", "interpreter"])
def test_ctrl_c_leaves_nothing_behind(suite, interrupted: Interrupt, fresh: bool, start: str) -> None:
    if not fresh and start == "interpreter":
        pytest.skip("no fresh process is started")
    suite.write("test_waiting.py", WAITING.format(fresh=fresh))
    before = {name: (suite.storage / name).read_bytes() for name in files(suite)}
    code, text = interrupted("--gpuperf-save-baseline", f"--gpuperf-fresh-start={start}", OTHER, "test_waiting.py")
    assert code == 2
    assert "KeyboardInterrupt" in text
    assert "INTERNALERROR" not in text
    assert {name: (suite.storage / name).read_bytes() for name in files(suite)} == before
    assert "The session ended before all runs of the baseline were measured; nothing was stored." in text


def test_ctrl_c_in_a_confirmation_says_what_was_lost(suite, interrupted: Interrupt) -> None:
    suite.replace(
        "test_suite.py",
        'assert gpubench(work, "other") == "other"',
        'gpubench(work, "other")\n'
        "    import sys, time, pathlib\n"
        "    if any('fork-server' in word for word in sys.argv):\n"
        "        pathlib.Path(__file__).with_name('now').touch()\n"
        "        time.sleep(100)",
    )
    suite.times(other=130.0)
    code, text = interrupted("--gpuperf", OTHER)
    assert code == 2
    assert "The session ended before 1 unsettled test was reported; nothing was stored." in text


@pytest.mark.parametrize("start", ["fork", "interpreter"])
def test_a_killed_session_takes_its_fresh_processes_along(suite, interrupted: Interrupt, start: str) -> None:
    suite.write("test_waiting.py", WAITING.format(fresh=True))
    code, _ = interrupted(
        "--gpuperf-save-baseline", f"--gpuperf-fresh-start={start}", "test_waiting.py", how=signal.SIGKILL
    )
    assert code == -signal.SIGKILL


def test_pytest_exit_in_a_test(suite) -> None:
    suite.times(op1=130.0)
    suite.write("test_zexit.py", "import pytest\ndef test_exit(gpubench):\n    pytest.exit('enough')\n")
    before = files(suite)
    result = suite.gate("-k", "op1 or exit")
    assert result.ret == 2
    assert "The session ended before 1 unsettled test was reported; nothing was stored." in result.stdout.str()
    assert files(suite) == before


@pytest.mark.parametrize("option", ["--gpuperf-save-baseline", "--gpuperf-extend-baseline"])
def test_a_session_that_saves_says_that_it_ended_too_early(suite, option: str) -> None:
    suite.write("test_zexit.py", "import pytest\ndef test_exit(gpubench):\n    pytest.exit('enough')\n")
    told = "The session ended before all runs of the baseline were measured; nothing was stored."
    assert told in suite.run(option, "-k", "op1 or exit").stdout.str()
    assert told not in suite.gate("-k", "op2 or exit").stdout.str()
    suite.write("test_zexit.py", "import nothing_of_that_name\n")
    assert "The session ended" not in suite.run(option, "-k", "op1").stdout.str()


@pytest.mark.parametrize("option", ["--gpuperf-fork-server", "--gpuperf-fresh-worker"])
@pytest.mark.parametrize("how", ["gone", "not looked at"])
def test_a_fresh_process_whose_session_died_before_it_could_look_ends_by_itself(
    suite, tmp_path: Path, option: str, how: str
) -> None:
    session = subprocess.Popen([sys.executable, "-c", ""])
    if how == "gone":
        session.wait()
    else:
        os.waitid(os.P_PID, session.pid, os.WEXITED | os.WNOWAIT)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"{option}={tmp_path}", "test_suite.py"]
    environment = {**os.environ, "GPUPERF_SESSION_PID": str(session.pid)}
    orphan = subprocess.Popen(command, cwd=suite.path, env=environment, stdout=subprocess.DEVNULL)
    try:
        assert orphan.wait(timeout=60) == 1
    finally:
        orphan.kill()
        session.wait()
