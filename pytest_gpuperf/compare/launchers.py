"""The ways to get a fresh process: a new interpreter, or a fork of one that has imported the suite but run nothing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_gpuperf.compare.fresh import POLL_SECONDS, Handle

LOG_FILE = "log.txt"
LOG_TAIL_LINES = 25
READY_FILE = "ready.json"
EXIT_FILE = "exit.json"
TURN_PREFIX = "turn-"
SESSION_VARIABLE = "GPUPERF_SESSION_PID"
"""Environment variable that tells a worker whose it is: it may be an orphan before it can look who its parent is."""
# Lets torch.cuda.is_available(), which many a suite calls while it is collected, ask NVML and leave CUDA alone.
FORK_FRIENDLY = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}


class ForkUnavailableError(Exception):
    """The suite cannot be forked from; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshCommand:
    """How pytest is started for a worker: the session's own command, and where."""

    head: tuple[str, ...]
    """Interpreter and how it starts pytest."""
    arguments: tuple[str, ...]
    """pytest's own arguments, of which the part behind a `--` stays last."""
    cwd: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def line(self, option: str) -> list[str]:
        """The whole command line with one more option."""
        at = self.arguments.index("--") if "--" in self.arguments else len(self.arguments)
        return [*self.head, *self.arguments[:at], option, *self.arguments[at:]]

    def start(self, option: str, log: Path) -> subprocess.Popen[bytes]:
        """Start it with one more option, leading a process group of its own, with its output in `log`."""
        with log.open("wb") as output:
            return subprocess.Popen(
                self.line(option),
                cwd=self.cwd,
                env={**os.environ, **self.environment, SESSION_VARIABLE: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


class InterpreterLauncher:
    """Starts a new interpreter for every request: its own address layout, hash seed and imports."""

    def __init__(self, command: FreshCommand) -> None:
        self._command = command

    def launch(self, folder: Path) -> Handle:
        """Start a worker on the request stored in `folder`."""
        log = folder / LOG_FILE
        return _Interpreter(self._command.start(f"--gpuperf-fresh-worker={folder}", log), log)


class _Interpreter:
    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        end_group(self._process)

    def ending(self) -> str:
        return f"{described(self._process.returncode)}; the end of its output:\n{tail(self._log)}"


class ForkLauncher:
    """Forks every request off one process that has collected the suite, but has not touched the device.

    A device's context is made anew in each fork, while imports, which take most of a new interpreter's time, are
    shared. The server refuses where the device was touched already, since no fork of it could use the device.
    """

    def __init__(self, command: FreshCommand, start_seconds: float) -> None:
        """Start the server, which takes as long as its imports; `await_ready` waits for it."""
        self._folder = tempfile.TemporaryDirectory(prefix="gpuperf-server-", ignore_cleanup_errors=True)
        self._home = Path(self._folder.name)
        self._log = self._home / LOG_FILE
        self._turns = itertools.count()
        self._process = replace(command, environment={**command.environment, **FORK_FRIENDLY}).start(
            f"--gpuperf-fork-server={self._home}", self._log
        )
        self._start_seconds = start_seconds
        self._deadline = time.monotonic() + start_seconds
        self._is_ready = False

    def await_ready(self) -> None:
        """Wait until forks can be made; raises `ForkUnavailableError` where the server refuses, dies or is late.

        A server that is not ready is ended.
        """
        if self._is_ready:
            return
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise
        self._is_ready = True

    def launch(self, folder: Path) -> Handle:
        """Have the request stored in `folder` run by a fork."""
        link = self._home / f"{TURN_PREFIX}{next(self._turns)}"
        partial = self._home / f"partial-{link.name}"
        partial.symlink_to(folder, target_is_directory=True)
        partial.rename(link)
        return _Fork(self._process, folder, self._log)

    def close(self) -> None:
        """End the server."""
        end_group(self._process)
        self._folder.cleanup()

    def _await_ready(self) -> None:
        ready = self._home / READY_FILE
        while not ready.exists():
            if self._process.poll() is not None:
                raise ForkUnavailableError(f"its process {described(self._process.returncode)}:\n{tail(self._log)}")
            if time.monotonic() > self._deadline:
                raise ForkUnavailableError(f"its process was not ready within {self._start_seconds:g} s")
            time.sleep(POLL_SECONDS)
        refusal = json.loads(ready.read_text(encoding="utf-8"))["refusal"]
        if refusal:
            raise ForkUnavailableError(refusal)


class _Fork:
    """A fork at work; it is in the process group of its server."""

    def __init__(self, server: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
        self._server = server
        self._folder = folder
        self._log = log

    def ended(self) -> bool:
        return (self._folder / EXIT_FILE).exists() or self._server.poll() is not None

    def end(self) -> None:
        if self.ended():
            return
        # Only the server knows the fork, so both go; the next launch finds the server gone and fails as it should.
        end_group(self._server)

    def ending(self) -> str:
        exit_file = self._folder / EXIT_FILE
        code = json.loads(exit_file.read_text())["code"] if exit_file.exists() else self._server.returncode
        return f"{described(code)}; the end of its output:\n{tail(self._log)}"


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads its own group, with whatever it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def described(returncode: int | None) -> str:
    """Say how a process ended."""
    if returncode is not None and returncode < 0:
        try:
            return f"was killed by {signal.Signals(-returncode).name}"
        except ValueError:
            return f"was killed by signal {-returncode}"
    return f"ended with exit code {returncode}"


def tail(log: Path) -> str:
    """Return the end of a worker's output."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-LOG_TAIL_LINES:]) or "    (nothing)"
