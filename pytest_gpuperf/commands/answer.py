"""What a command gives back: text for standard output, and an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.store.files import write_text_whole

FINE = 0
VERDICT_FAILS = 1
UNUSABLE = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """A command's text, its exit code, and what is to be said on standard error."""

    text: str
    exit_code: int = FINE
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the text leaves out although the rest of it holds."""


class CommandError(Exception):
    """What was asked cannot be done; the message says what was wrong and what would be right. Exit code 2."""


def written_json(text: str, path: str) -> str:
    """Write JSON to `path` and return ""; for `-` return it instead, to be printed. Raises CommandError."""
    if path == "-":
        return text.rstrip("\n")
    try:
        write_text_whole(Path(path), text)
    except OSError as error:
        raise CommandError(f"--json {path}: cannot be written ({error.strerror})") from error
    return ""
