"""Settings of `pytest --gpuperf` as arguments of a command: same names, limits and errors."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from pytest_gpuperf.settings import PER_BENCHMARK, PER_SESSION, Setting

LEVELS = ("min_effect", "detectable", "alpha")


def add_setting(parser: argparse.ArgumentParser, name: str, default_text: str = "") -> None:
    """Add the option of one setting; its value is None where it is not given. `default_text` is for the help."""
    setting = PER_BENCHMARK.get(name) or PER_SESSION[name]
    default = default_text or setting.default_text
    parser.add_argument(
        "--" + name.replace("_", "-"),
        metavar=setting.metavar,
        type=_parser_of(setting),
        help=f"{setting.help} (default: {default})".replace("%", "%%"),
    )


def add_levels(parser: argparse.ArgumentParser, default_text: str = "") -> None:
    """Add the options of the levels that a decision is held to."""
    for name in LEVELS:
        add_setting(parser, name, default_text and default_text.format(PER_BENCHMARK[name].default_text))


def given_levels(arguments: argparse.Namespace) -> dict[str, float]:
    """The levels that were given, by their field in `Policy`."""
    return {name: value for name in LEVELS if (value := getattr(arguments, name)) is not None}


def whole_number(least: int) -> Callable[[str], int]:
    """A parser of whole numbers from `least` on."""

    def parse(raw: str) -> int:
        if not raw.isascii() or not raw.lstrip("+").isdigit() or int(raw) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}; got {raw!r}")
        return int(raw)

    return parse


def _parser_of(setting: Setting) -> Callable[[str], object]:
    def parse(raw: str) -> object:
        try:
            return setting.parse(raw)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{error}; got {raw!r}") from None

    return parse
