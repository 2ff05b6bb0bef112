"""The command as a whole: help, usage errors, what it imports."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpuperf import cli
from pytest_gpuperf.cli import COMMANDS, main


def test_help_lists_every_command_and_the_exit_codes(gpuperf: Callable) -> None:
    code, out, _ = gpuperf("--help")
    assert code == 0
    assert all(f"\n    {name}" in out for name in COMMANDS)
    assert "exit codes:" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(gpuperf: Callable, command: str) -> None:
    code, out, _ = gpuperf(command, "--help")
    assert code == 0
    assert out.startswith(f"usage: gpuperf {command}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["show"], "the following arguments are required: NAME|SESSION|FILE"),
        (["compare", "main"], "the following arguments are required: B"),
        (["compare", "a", "b", "--alpha", "2"], "--alpha: must be between 0 and 0.5; got '2'"),
        (["compare", "a", "b", "--min-effect", "5"], "--min-effect: must be a share of at least 0 and below 1"),
        (["compare", "a", "b", "--fail-on", "slower"], "--fail-on: must be words out of regressed,"),
        (["compare", "a", "b", "--sort", "size"], "--sort: must be one of order,"),
        (["list", "--last", "-3"], "--last: must be a whole number of at least 0; got '-3'"),
    ],
)
def test_wrong_usage(gpuperf: Callable, arguments: list[str], message: str) -> None:
    code, out, err = gpuperf(*arguments)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    "command", [["list"], ["show", "main"], ["compare", "a", "b"], ["history"], ["accept", "latest"]]
)
def test_no_storage_anywhere(gpuperf: Callable, folder: Path, command: list[str]) -> None:
    code, out, err = gpuperf(*command)
    assert (code, out) == (2, "")
    assert f"there is no .gpuperf folder in {folder} or above it: give --storage DIR" in err


def test_the_storage_is_found_upwards(
    gpuperf: Callable, stored: object, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "down")
    assert gpuperf("list").code == 0


def test_the_storage_can_be_given(
    gpuperf: Callable, stored: object, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert "NVIDIA-H200" in gpuperf("list", "--storage", str(folder / ".gpuperf")).out
    assert "NVIDIA-H200" in gpuperf("list", "--storage", f"file://{folder}/.gpuperf").out


@pytest.mark.parametrize(
    ("location", "message"),
    [("nowhere", "--storage nowhere: there is no such folder"), ("s3://bucket/x", "pytest-gpuperf[remote]")],
)
def test_storage_that_cannot_be(gpuperf: Callable, location: str, message: str) -> None:
    code, _, err = gpuperf("list", "--storage", location)
    assert code == 2
    assert message in err


def test_a_terminal_without_our_symbols_is_no_reason_to_fail(
    stored: object, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    assert main(["show", "main@H200", "--runs"]) == 0
    ascii_only.seek(0)
    assert "\\xb1" in ascii_only.read()


def test_interruption_is_no_traceback(gpuperf: Callable, stored: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli._module("list"), "run", interrupted)
    code, out, err = gpuperf("list")
    assert (code, out) == (2, "")
    assert err == "gpuperf: error: interrupted\n"


def test_a_reader_that_has_seen_enough(stored: object, folder: Path) -> None:
    script = "import sys; from pytest_gpuperf.cli import main; sys.exit(main(['show', 'main@H200', '--runs']))"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == 0


def test_looking_at_files_imports_nothing_heavy(stored: object, folder: Path) -> None:
    script = (
        "import sys; from pytest_gpuperf.cli import main; main(['list']); main(['show', 'main@H200']);"
        "print(sorted({'torch', 'numpy', 'scipy', 'pytest'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


RUN = "import sys; from pytest_gpuperf.cli import main; sys.exit(main(sys.argv[1:]))"


def shell(redirections: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell that closes or redirects its streams."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-c", RUN, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("redirections", "arguments", "code"),
    [
        (">&-", ["show", "main@H200"], 0),
        ("2>&-", ["show", "main@H200"], 0),
        (">&- 2>&-", ["show", "nothing"], 2),
        ("2>&-", ["show", "nothing"], 2),
        ("<&-", ["show", "main@H200"], 0),
    ],
)
def test_closed_streams_are_no_reason_to_fail(
    stored: object, folder: Path, redirections: str, arguments: list[str], code: int
) -> None:
    done = shell(redirections, *arguments)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("and_stderr", ["", " 2>/dev/full"])
def test_an_answer_that_cannot_be_written_is_one_message(stored: object, folder: Path, and_stderr: str) -> None:
    done = shell(f">/dev/full{and_stderr}", "show", "main@H200")
    assert done.returncode == 2
    message = "gpuperf: error: the answer could not be written (No space left on device)\n"
    assert done.stderr == ("" if and_stderr else message)


@pytest.mark.parametrize("arguments", [["-k", "total"], ["--runs", "13", "-m", "slow"], ["--storage", "perf"]])
def test_calibrate_says_where_options_of_pytest_stand(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["calibrate", *arguments]) == 2
    assert f"{arguments[-2]} (pytest's own options stand behind a --)" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["list", "doctor"])
def test_other_commands_take_no_options_of_pytest(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "-m"]) == 2
    told = capsys.readouterr().err
    assert "unrecognized arguments: -m" in told
    assert "behind a --" not in told
