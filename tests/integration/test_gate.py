"""The main job: a baseline is saved, unchanged code passes, slower code fails just its own tests."""

from __future__ import annotations

import pytest


def test_the_story_of_a_slowdown(suite) -> None:
    """Unchanged passes; a slowdown fails until it is mended or accepted, and never becomes the baseline by itself."""
    for _ in range(5):
        assert suite.gate().ret == 0
    suite.times(op3=110.0)
    before = suite.baseline_file().read_bytes()
    assert suite.gate().ret == 1
    again, junit = suite.junit()
    assert again.ret == 1
    assert [case.get("name") for case in junit if case.find("failure") is not None] == ["test_op[op3]"]
    saving = suite.gate("--gpuperf-save-baseline")
    assert saving.ret == 1
    saving.stdout.fnmatch_lines(["*Not stored (regressed: the entry stays as it is): *test_op[[]op3[]]*"])
    assert suite.baseline_file().read_bytes() == before
    accepting = suite.run("--gpuperf-save-baseline", "--gpuperf-runs=10")
    assert accepting.ret == 0
    accepting.stdout.fnmatch_lines(["*test_op[[]op3[]] * regressed", "*11 benchmarks stored in baseline main."])
    assert suite.gate().ret == 0


def test_a_slowdown_fails_its_own_test_and_no_other(suite) -> None:
    suite.times(op3=110.0)
    result, junit = suite.junit()
    assert result.ret == 1
    result.assert_outcomes(passed=11, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*= FAILURES =*",
            "slower by * % [[]*[]] over 10 + 5 runs, p = *",
            "To repeat: pytest --gpuperf 'test_suite.py::test_op[[]op3[]]'",
            "*1 regressed, 10 unchanged*",
            "11 measured = 11 in the baseline + 0 new",
            "FAILED test_suite.py::test_op[[]op3[]] - slower by *",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*test_suite.py:*: *Error*")
    assert (junit.get("tests"), junit.get("failures"), junit.get("errors")) == ("12", "1", "0")
    (failure,) = junit.iter("failure")
    assert failure.get("message").startswith("slower by")
    assert failure.text.startswith("slower by")
    assert "Traceback" not in failure.text


def test_junit_holds_the_figures(suite) -> None:
    _, junit = suite.junit("-k", "op0 or other")
    for case in junit:
        properties = {node.get("name"): node.get("value") for node in case.iter("property")}
        assert properties["gpuperf_verdict"] == "unchanged"
        assert 90 < float(properties["gpuperf_mean_us"]) < 110


def test_an_improvement_passes_and_is_told(suite) -> None:
    suite.times(op3=80.0)
    assert suite.verdicts("--gpuperf-strict")["test_suite.py::test_op[op3]"] == "improved"
    assert suite.gate("--gpuperf-strict").ret == 0


def test_slower_by_less_than_the_smallest_effect_passes(suite) -> None:
    suite.times(op3=103.0)
    assert suite.gate("--gpuperf-min-effect=0.05").ret == 0
    assert suite.gate("--gpuperf-min-effect=0.01").ret == 1


def test_all_suspects_are_confirmed_together(suite) -> None:
    suite.times(op1=120.0, op2=130.0, other=140.0)
    result = suite.gate()
    result.assert_outcomes(passed=9, failed=3)
    result.stdout.fnmatch_lines(["gpuperf: confirming suspects: * tests in 4 fresh processes"])


def test_a_slowdown_that_does_not_come_back_passes(suite) -> None:
    suite.write(
        "test_suite.py",
        "def test_other(gpubench, work, pytestconfig):\n"
        "    fresh = pytestconfig.getoption('gpuperf_fork_server') or pytestconfig.getoption('gpuperf_fresh_worker')\n"
        "    from conftest import times_us\n"
        "    times_us['other'] = 100 if fresh else 130\n"
        "    gpubench(work, 'other')\n",
    )
    result = suite.gate("test_suite.py::test_other")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["gpuperf: confirming suspects: 1 test in 4 fresh processes"])


def test_exitfirst_stops_at_a_regression(suite) -> None:
    suite.times(op3=110.0)
    result, junit = suite.junit("-x", "--gpuperf-json=out.json")
    assert result.ret == 1
    result.assert_outcomes(passed=3, failed=1)
    assert junit.get("failures") == "1"
    result.stdout.fnmatch_lines(
        ["*test_op[[]op3[]] * regressed*", "4 measured + 7 missing = 11 in the baseline + 0 new"]
    )
    assert list(suite.verdicts_in("out.json").values()) == ["unchanged"] * 3 + ["regressed"]


def test_stepwise_goes_on_at_the_regressed_test(suite) -> None:
    suite.times(op3=110.0)
    arguments = ("--gpuperf", "--gpuperf-confirm-runs=4", "--stepwise")
    first = suite.run_with_cache(*arguments)
    first.assert_outcomes(passed=3, failed=1)
    suite.times()
    second = suite.run_with_cache(*arguments)
    assert second.ret == 0
    second.assert_outcomes(passed=9, deselected=3)


def test_exitfirst_stops_at_a_regression_when_strict(suite) -> None:
    suite.times(op3=110.0)
    result = suite.gate("-x", "--gpuperf-strict")
    assert result.ret == 1
    result.assert_outcomes(passed=3, failed=1)


def test_what_was_not_reached_is_not_stored(suite) -> None:
    before = suite.baseline_file().read_bytes()
    suite.add(
        "test_suite.py",
        "\ndef test_zero():\n    assert False\n\ndef test_more(gpubench, work):\n    gpubench(work, 'x')\n",
    )
    result = suite.run("-x", "--gpuperf-save-baseline", "--gpuperf-runs=1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*stopped early*nothing was stored*"])
    assert suite.baseline_file().read_bytes() == before


def test_last_failed_repeats_the_regressed_test(suite) -> None:
    suite.times(op3=110.0)
    arguments = ("--gpuperf", "--gpuperf-confirm-runs=4")
    first = suite.run_with_cache(*arguments)
    assert first.ret == 1
    second = suite.run_with_cache(*arguments, "--lf")
    assert second.ret == 1
    second.assert_outcomes(failed=1)
    second.stdout.fnmatch_lines(["1 measured + 10 deselected = 11 in the baseline + 0 new"])
    suite.times()
    assert suite.run_with_cache(*arguments, "--lf").ret == 0


@pytest.mark.parametrize("fail_on", ["new", "regressed,new"])
def test_fail_on_chooses_the_verdicts_that_fail(suite, fail_on: str) -> None:
    suite.add("test_suite.py", "\ndef test_more(gpubench, work):\n    gpubench(work, 'more')\n")
    assert suite.gate("-k", "other or more").ret == 0
    result, junit = suite.junit(f"--gpuperf-fail-on={fail_on}", "-k", "other or more")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED test_suite.py::test_more - new: not in baseline main*"])
    assert junit.get("failures") == "1"


def test_fail_on_without_regressed_lets_regressions_pass(suite) -> None:
    suite.times(op3=110.0)
    assert suite.gate("--gpuperf-fail-on=new").ret == 0


def test_too_few_runs_in_the_baseline_are_inconclusive(new_suite) -> None:
    assert new_suite.run("--gpuperf-save-baseline", "--gpuperf-runs=3").ret == 0
    result = new_suite.gate("-k", "other")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["inconclusive: test_other: the baseline has only 3 runs*"])
    assert new_suite.gate("-k", "other", "--gpuperf-strict").ret == 1


def test_a_name_for_each_benchmark_of_a_test(suite) -> None:
    text = (
        "def test_pair(gpubench, work):\n"
        "    gpubench.run(work, ['left'], name='left')\n"
        "    gpubench.run(work, ['right'], name='right')\n"
        "    assert len(gpubench.results) == 2\n"
    )
    suite.write("test_pair.py", text)
    assert suite.run("--gpuperf-save-baseline", "test_pair.py").ret == 0
    assert {"test_pair.py::test_pair (left)", "test_pair.py::test_pair (right)"} < suite.entries().keys()
    suite.times(right=110.0)
    result, junit = suite.junit("test_pair.py")
    assert result.ret == 1
    assert junit.get("failures") == "1"
    result.stdout.fnmatch_lines(["right: slower by *", "FAILED test_pair.py::test_pair - right: slower by *"])
    result.stdout.no_fnmatch_line("left: slower*")
    suite.replace("test_pair.py", "name='left'", "name='west'")
    result = suite.gate("test_pair.py", "--gpuperf-strict")
    result.stdout.fnmatch_lines(["*2 measured + 11 deselected + 1 missing = 13 in the baseline + 1 new"])
    assert result.ret == 1


def test_two_benchmarks_without_names_are_refused(suite) -> None:
    suite.write("test_pair.py", "def test_pair(gpubench, work):\n    gpubench(work, 'a')\n    gpubench(work, 'b')\n")
    for arguments in ((), ("--gpuperf",)):
        result = suite.run("test_pair.py", *arguments)
        assert result.ret == 1
        result.stdout.fnmatch_lines(["E *ValueError: *test_pair: gpubench was called twice with no name in one test*"])
