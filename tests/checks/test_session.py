"""What becomes of findings in a session: result, terminal, JUnit, JSON, failed tests, what is stored."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

# A run inside this process forgets what it imported, and some modules cannot be imported twice.
for module in ("numpy", "scipy.special", "scipy.stats", "torch", "torch.profiler", "torch.utils._python_dispatch"):
    pytest.importorskip(module)

SUITE = """
import pytest
import torch

x = torch.rand(32, 32)


def test_honest(gpubench):
    gpubench(torch.softmax, x, -1)
    assert gpubench.result is None or gpubench.result.findings == ()


def test_view(gpubench):
    gpubench(lambda x: x[1:], x)
    if gpubench.result is not None:
        (finding,) = gpubench.result.findings
        assert finding.check == "aliasing"


@pytest.mark.perf(allow=["aliasing"])
def test_allowed(gpubench):
    gpubench(lambda x: x[1:], x)
    assert gpubench.result is None or gpubench.result.findings == ()
"""
QUICK = (
    "--gpuperf-max-time=0.02",
    "--gpuperf-trials=20",
    "--gpuperf-device=cpu",
    "-p",
    "no:randomly",
    "-p",
    "no:cacheprovider",
)


@pytest.fixture
def suite(pytester):
    pytester.makepyfile(test_suite=SUITE)

    def run(*options):
        return pytester.runpytest_inprocess(*QUICK, *options)

    run.path = pytester.path
    return run


def test_by_default_findings_are_told_and_fail_nothing(suite):
    result = suite("--gpuperf", "--junitxml=junit.xml", "--gpuperf-json=out.json")
    result.assert_outcomes(passed=3)
    assert "Check of test_view: aliasing: the output is a view of argument 0" in result.stdout.str()
    assert result.stdout.str().count("Check of ") == 1
    properties = {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")}
        for case in ElementTree.parse(suite.path / "junit.xml").iter("testcase")
    }
    assert properties["test_view"]["gpuperf_findings"].startswith("aliasing: ")
    assert "gpuperf_findings" not in properties["test_honest"]
    outcomes = json.loads((suite.path / "out.json").read_text())["outcomes"]
    found = {outcome["benchmark"]["node_id"]: outcome.get("checks", []) for outcome in outcomes}
    assert [one["check"] for one in found["test_suite.py::test_view"]] == ["aliasing"]
    assert found["test_suite.py::test_allowed"] == []


def test_with_fail_the_test_fails_by_a_message_and_is_not_stored(suite):
    result = suite("--gpuperf-save-baseline", "--gpuperf-checks=fail", "--gpuperf-runs=1")
    result.assert_outcomes(passed=2, failed=1)
    output = result.stdout.str()
    assert "FAILED test_suite.py::test_view - check aliasing: the output is a view" in output
    assert "Traceback" not in output
    assert "2 benchmarks stored" in output
    assert "did not pass its checks" in output


def test_switched_off_nothing_is_looked_for(suite):
    (suite.path / "test_suite.py").write_text(SUITE.replace('assert finding.check == "aliasing"', "assert False"))
    result = suite("--gpuperf", "--gpuperf-checks=off", "-k", "not view")
    result.assert_outcomes(passed=2)
    assert "Check of" not in result.stdout.str()


def test_ini_and_options_allow_by_name(suite):
    (suite.path / "test_suite.py").write_text(SUITE.replace("(finding,) = gpubench.result.findings", "return"))
    (suite.path / "pytest.ini").write_text("[pytest]\ngpuperf_allow = aliasing,work\n")
    assert "Check of" not in suite("--gpuperf").stdout.str()


def test_unknown_names_are_refused_with_the_known_ones(suite):
    result = suite("--gpuperf", "--gpuperf-allow=synch")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "must be words out of patched, lazy" in result.stderr.str()


def test_profiles_are_written_where_asked(suite):
    result = suite("--gpuperf", "--gpuperf-profile=profiles", "-k", "honest")
    result.assert_outcomes(passed=1, deselected=2)
    (table,) = (suite.path / "profiles").glob("*.txt")
    (trace,) = (suite.path / "profiles").glob("*.trace.json")
    assert "aten::softmax" in table.read_text()
    assert json.loads(trace.read_text())["traceEvents"]
    assert "Profiles (tables and traces) are in profiles." in result.stdout.str()


def test_ranges_need_a_gpu(suite):
    result = suite("--gpuperf", "--gpuperf-nvtx", "-k", "honest")
    result.assert_outcomes(failed=1, deselected=2)
    assert "--gpuperf-nvtx: there is no GPU timeline on cpu" in result.stdout.str()
