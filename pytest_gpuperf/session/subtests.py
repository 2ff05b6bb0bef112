"""Failures that are reported while their test still runs: subtests, after which the test itself may seem to pass."""

from __future__ import annotations

import pytest


class Subtests:
    """Remembers the tests that a failure was reported for before their own reports."""

    def __init__(self) -> None:
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            self._failed.add(report.nodeid)

    def failed_in(self, item: pytest.Item) -> bool:
        """Return whether a subtest of this test has failed; to be asked before the test's own reports are logged."""
        return item.nodeid in self._failed
