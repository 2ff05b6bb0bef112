"""What a test's report carries along about its benchmarks, from the process that ran it to the one that tells."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec
import pytest

from pytest_gpuperf.checks.finding import CheckFinding
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision
from pytest_gpuperf.settings import BenchmarkSettings

ATTRIBUTE = "gpuperf_findings"
STABLE_NODE_ID = "gpuperf_node_id"
"""Attribute of a report: the test's node id without what pytest-xdist appends."""


class Look(Enum):
    """What the session's own run says at first sight."""

    SETTLED = "settled"
    SUSPECT = "suspect"
    """Perhaps slower: to be confirmed before the test is reported."""
    FASTER = "faster"
    """Convincingly faster: worth the runs that let it be called improved."""
    WAITING = "waiting"
    """Judged by the comparison with another revision that ends the session."""
    UNDECIDED = "undecided"
    """Too noisy to rule a slowdown out: worth more runs if there is time."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark of a test that passed, with what is needed to decide on it again after more runs."""

    outcome: Outcome
    settings: BenchmarkSettings
    look: Look = Look.SETTLED
    against: str = ""
    """The revision that the benchmark is compared with, in place of a stored baseline."""
    problem: str = ""
    """Why the benchmark could not be confirmed; fails the test whatever the verdict."""
    drift: str = ""
    """How the arguments of a fresh run differ from those of the session's own."""

    @property
    def failed_checks(self) -> tuple[CheckFinding, ...]:
        """What the checks found that fails the test: all of it where `checks` is `fail`, else the test's own limits."""
        return tuple(c for c in self.outcome.checks if c.is_limit or self.settings.checks == "fail")

    def deciding(self, decision: Decision) -> Finding:
        """Return the finding with another decision."""
        return msgspec.structs.replace(self, outcome=msgspec.structs.replace(self.outcome, decision=decision))


def attach(report: pytest.TestReport, findings: Sequence[Finding]) -> None:
    """Put findings on a report, as text, since pytest-xdist carries only plain values from process to process."""
    setattr(report, ATTRIBUTE, msgspec.json.encode(tuple(findings)).decode())


def detach(report: pytest.TestReport) -> tuple[Finding, ...]:
    """Take the findings off a report, so that the raw samples do not stay in memory with it."""
    text = getattr(report, ATTRIBUTE, None)
    if text is None:
        return ()
    delattr(report, ATTRIBUTE)
    return msgspec.json.decode(text, type=tuple[Finding, ...])
