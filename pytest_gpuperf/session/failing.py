"""Turns a verdict into an ordinary failed test: a message, no traceback."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.report.checks import failed_checks
from pytest_gpuperf.report.junit import junit_properties
from pytest_gpuperf.report.paragraphs import repeat_command, verdict_paragraph
from pytest_gpuperf.session.findings import Finding

Fails = Callable[[Outcome], bool]
BY_VERDICT = "gpuperf_by_verdict"
"""Attribute of a report that a verdict made a failure."""


class VerdictRepr(TerminalRepr):
    """The message of a failed verdict: its first line in the short summary, all of it in the failures section."""

    def __init__(self, message: str, path: str, line: int) -> None:
        self.message = message
        self.reprcrash = ReprFileLocation(path, line, message.splitlines()[0])

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write the message."""
        for line in self.message.splitlines():
            tw.line(line, red=True)


def fails_by(config: pytest.Config, failing_verdicts: Sequence[str]) -> Fails:
    """Return what says whether an outcome fails its test: first the hooks, then --gpuperf-fail-on."""

    def fails(outcome: Outcome) -> bool:
        said: bool | None = config.hook.pytest_gpuperf_verdict(config=config, outcome=outcome)
        return outcome.decision.verdict in failing_verdicts if said is None else said

    return fails


def apply_findings(reports: Sequence[pytest.TestReport], findings: Sequence[Finding], fails: Fails) -> None:
    """Give the reports their JUnit properties, and make the call's a failure where a finding asks for that."""
    properties = [pair for finding in findings for pair in junit_properties(finding.outcome)]
    for report in reports:
        # The JUnit file takes them from the teardown's report, other readers from the call's.
        report.user_properties.extend(properties)
        if report.when == "call" and (message := failure_message(report.nodeid, findings, fails)):
            _fail(report, message)


def failure_message(node_id: str, findings: Sequence[Finding], fails: Fails) -> str:
    """Return the text of the failure, empty where nothing fails."""
    parts = []
    for finding in findings:
        if finding.problem:
            parts.append(f"{finding.outcome.benchmark.label} could not be confirmed: {finding.problem}")
        elif fails(finding.outcome):
            options = [f"--gpuperf-against={finding.against}"] if finding.against else []
            parts.append(verdict_paragraph(finding.outcome, repeat_command=repeat_command(node_id, *options)))
        if finding.failed_checks:
            parts.append(failed_checks(finding.outcome, finding.failed_checks))
    return "\n\n".join(parts)


def restore_message(report: pytest.TestReport) -> None:
    """Give a verdict's failure its form back, which pytest-xdist reduces to plain text on the way."""
    if getattr(report, BY_VERDICT, False) and isinstance(report.longrepr, str):
        path, line, _ = report.location
        report.longrepr = VerdictRepr(report.longrepr, path, (line or 0) + 1)


def failed_report(node_id: str, message: str) -> pytest.TestReport:
    """Return a failed report for a test that is not there to fail by itself."""
    path, _, name = node_id.partition("::")
    return pytest.TestReport(
        nodeid=node_id,
        location=(path, None, name.replace("::", ".") or path),
        keywords={},
        outcome="failed",
        longrepr=VerdictRepr(message, path, 0),
        when="call",
    )


def _fail(report: pytest.TestReport, message: str) -> None:
    path, line, _ = report.location
    if hasattr(report, "wasxfail"):
        # An expected failure that came: the test was marked for it, so it counts as xfailed.
        report.outcome = "skipped"
        report.wasxfail = report.wasxfail or message.splitlines()[0]
        return
    report.outcome = "failed"
    report.longrepr = VerdictRepr(message, path, (line or 0) + 1)
    setattr(report, BY_VERDICT, True)
