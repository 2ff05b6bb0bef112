"""What findings do to a test's reports, and what the ledger reads back from them."""

from __future__ import annotations

import json

import pytest

from pytest_gpuperf.session.failing import apply_findings, failed_report, failure_message, restore_message
from pytest_gpuperf.session.findings import ATTRIBUTE, Look, attach, detach
from pytest_gpuperf.session.ledger import Ledger


def fails(outcome) -> bool:
    return outcome.decision.verdict == "regressed"


def test_findings_travel_on_a_report(make_finding, make_report) -> None:
    report = make_report()
    findings = (make_finding(), make_finding(name="b", problem="it died", look=Look.SUSPECT))
    attach(report, findings)
    # pytest-xdist carries plain values only.
    assert isinstance(getattr(report, ATTRIBUTE), str)
    assert detach(report) == findings
    assert detach(report) == ()


def test_a_finding_that_fails_makes_the_call_a_failure_without_a_traceback(make_finding, make_report) -> None:
    reports = [make_report(when) for when in ("setup", "call", "teardown")]
    apply_findings(reports, [make_finding(), make_finding(name="b", verdict="regressed", reason="slow")], fails)
    assert [report.outcome for report in reports] == ["passed", "failed", "passed"]
    assert reports[1].longreprtext.startswith("b: ")
    assert "To repeat: pytest --gpuperf test_a.py::test_a" in reports[1].longreprtext
    assert all(("gpuperf_verdict", "unchanged") in report.user_properties for report in reports)


def test_nothing_fails_without_a_reason(make_finding, make_report) -> None:
    report = make_report()
    apply_findings([report], [make_finding(verdict="inconclusive")], fails)
    assert report.passed
    assert failure_message("test_a.py::test_a", [make_finding()], fails) == ""


def test_a_problem_fails_whatever_the_verdict(make_finding, make_report) -> None:
    report = make_report()
    apply_findings([report], [make_finding(problem="the process died")], fails)
    assert report.failed
    assert "test_a.py::test_a could not be confirmed: the process died" in report.longreprtext


def test_an_expected_failure_stays_one(make_finding, make_report) -> None:
    report = make_report()
    report.wasxfail = "known"
    apply_findings([report], [make_finding(verdict="regressed")], fails)
    assert (report.outcome, report.wasxfail) == ("skipped", "known")


def test_a_verdicts_message_survives_the_way_through_xdist(make_finding, make_report) -> None:
    report = make_report()
    apply_findings([report], [make_finding(verdict="regressed", reason="slow")], fails)
    message = report.longrepr.reprcrash.message
    report.longrepr = str(report.longrepr)
    restore_message(report)
    assert report.longrepr.reprcrash.message == message


@pytest.mark.parametrize("node_id", ["a.py::test_b[x::y]", "folder/a.py", "a.py::TestC::test_d", "odd"])
def test_a_report_for_a_test_that_is_not_there(node_id: str) -> None:
    report = failed_report(node_id, "first line\nsecond")
    assert report.failed
    assert report.nodeid == node_id
    assert report.longrepr.reprcrash.message == "first line"
    assert json.dumps(report.location)


def test_the_ledger_keeps_the_worst_that_became_of_a_test(make_report) -> None:
    ledger = Ledger()
    for node_id, outcomes in {
        "good": ("passed", "passed", "passed"),
        "torn": ("passed", "passed", "failed"),
        "unset": ("failed", None, "passed"),
        "skip": ("skipped", None, "passed"),
        "late": ("passed", "skipped", "passed"),
        "both": ("passed", "skipped", "failed"),
    }.items():
        for when, outcome in zip(("setup", "call", "teardown"), outcomes, strict=True):
            if outcome is not None:
                ledger.pytest_runtest_logreport(make_report(when, outcome, node_id))
    assert ledger.fates == {
        "good": "passed",
        "torn": "failed",
        "unset": "failed",
        "skip": "skipped",
        "late": "skipped",
        "both": "failed",
    }
    assert ledger.durations_s["good"] == 1.5


def test_a_test_that_fails_by_a_verdict_ran_all_the_same(make_finding, make_report) -> None:
    ledger, report = Ledger(), make_report(outcome="failed")
    attach(report, [make_finding()])
    ledger.pytest_runtest_logreport(report)
    assert ledger.fates == {"test_a.py::test_a": "failed"}
    assert ledger.fates_by_stored_id() == {"test_a.py::test_a": "passed"}
    assert not hasattr(report, "gpuperf_findings")
