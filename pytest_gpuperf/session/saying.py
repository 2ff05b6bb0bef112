"""A line for the user in the middle of a test, where pytest captures what is written."""

from __future__ import annotations

import contextlib

import pytest


def say(config: pytest.Config, text: str) -> None:
    """Write one line to the terminal; nothing in a quiet session, or in a process that has no terminal of its own."""
    reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput") or config.getoption("verbose", 0) < 0:
        return
    capturing = config.pluginmanager.get_plugin("capturemanager")
    with contextlib.nullcontext() if capturing is None else capturing.global_and_fixture_disabled():
        reporter.ensure_newline()
        reporter.write_line(text)
        reporter.flush()
