"""A command on a terminal of its own, so that its progress is seen while it runs, each line with the second it came."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

READ_BYTES = 65536
COLUMNS = "200"
CLEANING_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def run_watched(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], saw: Callable[[float, str], None]
) -> Finished:
    """Run the command; call `saw` with the seconds since its start and each line, as far as it is written yet.

    Whatever ends the wait ends the command, as Ctrl-C does, so that it can clean up.
    """
    ours, theirs = _channel()
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                # Unbuffered where there is no terminal whose every line is seen at once.
                env={**environment, "COLUMNS": COLUMNS, "TERM": "dumb", "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=errors,
            )
        finally:
            os.close(theirs)
        try:
            lines = _lines(ours, lambda line: saw(time.perf_counter() - begun, line))
            code = process.wait()
        finally:
            _end(process)
            os.close(ours)
        errors.seek(0)
        stderr = errors.read().decode(errors="replace")
    return Finished(returncode=code, stdout="\n".join(lines), stderr=stderr)


def _channel() -> tuple[int, int]:
    """Return both ends of a terminal; of a pipe in a container that has none, which shows what is not rewritten."""
    try:
        return pty.openpty()
    except OSError:
        return os.pipe()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(CLEANING_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _lines(terminal: int, saw: Callable[[str], None]) -> list[str]:
    """Read until nothing has the terminal open any more; return all lines, those that were rewritten too."""
    lines: list[str] = []
    pending = ""
    while text := _read(terminal):
        *whole, pending = re.split(r"[\r\n]+", pending + text)
        lines += filter(None, map(str.rstrip, whole))
        # The last one is not rewritten before the next thing happens.
        for line in filter(None, map(str.rstrip, [*whole, pending])):
            saw(line)
    return [*lines, pending] if pending.strip() else lines


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, READ_BYTES).decode(errors="replace")
    except OSError:  # how Linux says that the other end is closed
        return ""
