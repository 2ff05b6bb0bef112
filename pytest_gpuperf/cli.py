"""The `gpuperf` command: what can be done with stored files, and the audit of this machine's verdicts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TextIO

from pytest_gpuperf.commands.answer import UNUSABLE, Answer, CommandError

COMMANDS = {
    "list": ("listing", "list the stored baselines and sessions"),
    "show": ("show", "show what a baseline or a session holds"),
    "compare": ("compare", "compare two baselines, sessions or files, with the verdicts of pytest --gpuperf"),
    "history": ("history", "show how benchmarks did over the stored sessions"),
    "accept": ("accept", "store what a session measured as the baseline"),
    "rename": ("rename", "give a baseline's entries the new id of a renamed test"),
    "prune": ("prune", "remove entries from a baseline, or all but the newest session records"),
    "calibrate": ("calibrate", "audit the verdicts on this machine: false alarms, and the smallest slowdown found"),
    "doctor": ("doctor", "say whether this machine is fit for benchmarking, and what would make it so"),
}
_EPILOG = """exit codes:
  0  fine
  1  a verdict that fails (compare: see --fail-on), a gate that would cry wolf (calibrate), or a machine
     that is not fit (doctor)
  2  wrong usage, a file that cannot be used, or tests that fail (calibrate)

'gpuperf COMMAND --help' tells more of each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `gpuperf` with these arguments (None: the process's) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parsed = _parsed(arguments)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else UNUSABLE
    return _told(_run(parsed))


def _run(parsed: argparse.Namespace) -> Answer:
    from pytest_gpuperf.store.errors import StoreError

    try:
        answer: Answer = _module(parsed.command).run(parsed)
    except (CommandError, StoreError) as error:
        return Answer("", UNUSABLE, (str(error),))
    except KeyboardInterrupt:
        return Answer("", UNUSABLE, ("interrupted",))
    return answer


def _told(answer: Answer) -> int:
    try:
        if answer.text:
            _print(answer.text, sys.stdout)
        for warning in answer.warnings:
            _print(f"gpuperf: warning: {warning}", sys.stderr)
        for error in answer.errors:
            _print(f"gpuperf: error: {error}", sys.stderr)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; without this the interpreter complains again when it flushes at exit.
        sys.stdout = None
    except OSError as error:
        return _untold(error)
    return answer.exit_code


def _untold(error: OSError) -> int:
    """Say on standard error that the answer could not be written (a full disk, say), as far as that can be written."""
    sys.stdout = None  # as above
    try:
        _print(f"gpuperf: error: the answer could not be written ({error.strerror})", sys.stderr)
    except OSError:
        sys.stderr = None
    return UNUSABLE


def _print(text: str, stream: TextIO | None) -> None:
    if stream is None:  # closed by whoever started this process (`>&-`), who does not want to know
        return
    # A terminal that knows no `±` is no reason to fail.
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def _module(command: str) -> ModuleType:
    return import_module(f"pytest_gpuperf.commands.{COMMANDS[command][0]}")


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser(arguments)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        hint = " (pytest's own options stand behind a --)" if parsed.command == "calibrate" else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return parsed


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf",
        description="Look at, compare and maintain the results that pytest --gpuperf stores.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (_, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        # Only the command that is asked for is imported: the others' arguments will not be looked at.
        if name in arguments:
            _module(name).add_arguments(command)
    return parser
