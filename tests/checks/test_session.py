"""What becomes of findings in a session: result, terminal, JUnit, JSON, failed tests, what is stored."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from pytest_gpuperf.settings import CHECKS

# A run inside this process forgets what it imported; some modules cannot be imported twice.
for module in ("scipy.special", "scipy.stats", "torch"):
    pytest.importorskip(module)

SUITE = """
import functools
import pytest

cached = functools.lru_cache(lambda n: sum(range(n)))


def test_honest(gpubench):
    gpubench(sorted, [3, 1, 2])
    assert gpubench.result is None or gpubench.result.findings == ()


def test_cached(gpubench):
    gpubench(cached, 1000)
    if gpubench.result is not None and CHECKED:
        (finding,) = gpubench.result.findings
        assert finding.check == "caching"


@pytest.mark.perf(allow=["lazy"])
def test_allowed(gpubench):
    gpubench(map, abs, range(10))
    assert gpubench.result is None or gpubench.result.findings == ()
"""
QUICK = ("--gpuperf-trials=20", "--gpuperf-device=cpu", "-p", "no:randomly", "-p", "no:cacheprovider")


@pytest.fixture
def suite(pytester):
    def run(*options, checked=True):
        pytester.makepyfile(test_suite=SUITE.replace("CHECKED", str(checked)))
        return pytester.runpytest_inprocess(*QUICK, *options)

    run.path = pytester.path
    return run


def test_by_default_findings_are_told_and_fail_nothing(suite):
    result = suite("--gpuperf", "--junitxml=junit.xml", "--gpuperf-json=out.json")
    result.assert_outcomes(passed=3)
    assert "Check of test_cached: caching: the function is wrapped in a cache" in result.stdout.str()
    assert result.stdout.str().count("Check of ") == 1
    properties = {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")}
        for case in ElementTree.parse(suite.path / "junit.xml").iter("testcase")
    }
    assert properties["test_cached"]["gpuperf_findings"].startswith("caching: ")
    assert "gpuperf_findings" not in properties["test_honest"]
    outcomes = json.loads((suite.path / "out.json").read_text())["outcomes"]
    found = {outcome["benchmark"]["node_id"]: outcome.get("checks", []) for outcome in outcomes}
    assert [one["check"] for one in found["test_suite.py::test_cached"]] == ["caching"]
    assert found["test_suite.py::test_allowed"] == []


def test_with_fail_the_test_fails_by_a_message_and_is_not_stored(suite):
    result = suite("--gpuperf-save-baseline", "--gpuperf-checks=fail", "--gpuperf-runs=1")
    result.assert_outcomes(passed=2, failed=1)
    output = result.stdout.str()
    assert "FAILED test_suite.py::test_cached - check caching: the function is" in output
    assert "Traceback" not in output
    assert "2 benchmarks stored" in output
    assert "did not pass its checks" in output


def test_switched_off_nothing_is_looked_for(suite):
    assert "Check of" not in suite("--gpuperf", "--gpuperf-checks=off", checked=False).stdout.str()


def test_the_ini_file_allows_by_name(suite):
    (suite.path / "pytest.ini").write_text("[pytest]\ngpuperf_allow = caching,work\n")
    assert "Check of" not in suite("--gpuperf", checked=False).stdout.str()


def test_unknown_names_are_refused_with_the_known_ones(suite):
    result = suite("--gpuperf", "--gpuperf-allow=synch")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"must be words out of {', '.join(CHECKS)}" in result.stderr.str()


def test_the_session_says_where_profiles_are(suite, monkeypatch):
    from pytest_gpuperf.session import tracing

    written = []
    monkeypatch.setattr(
        tracing, "write_profile", lambda torch, bind, folder, name, cuda: written.append((folder, name))
    )
    result = suite("--gpuperf", "--gpuperf-profile=profiles", "-k", "honest")
    result.assert_outcomes(passed=1, deselected=2)
    assert "Profiles (tables and traces) are in profiles." in result.stdout.str()
    ((folder, name),) = written
    assert folder == suite.path / "profiles"
    assert name.startswith("test_suite.py-test_honest")


def test_ranges_need_a_gpu(suite):
    result = suite("--gpuperf", "--gpuperf-nvtx", "-k", "honest")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--gpuperf-nvtx: there is no GPU timeline on cpu" in result.stderr.str()
