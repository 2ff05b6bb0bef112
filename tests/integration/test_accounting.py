"""No benchmark is lost: what is in the baseline is measured, failed, skipped, deselected or missing, and it adds up."""

from __future__ import annotations

import re

import pytest

from pytest_gpuperf.cli import main

OTHER = "test_suite.py::test_other"
SUM = re.compile(
    r"(\d+) measured(?: \+ (\d+) failed)?(?: \+ (\d+) skipped)?(?: \+ (\d+) deselected)?(?: \+ (\d+) missing)? "
    r"= (\d+) in the baseline \+ (\d+) new"
)


def sums(result: pytest.RunResult) -> dict[str, int]:
    """Return the counts of the one accounting line, which must balance."""
    text = result.stdout.str()
    assert "INTERNAL ERROR" not in text
    ((*left, baseline, new),) = SUM.findall(text)
    counts = dict(
        zip(("measured", "failed", "skipped", "deselected", "missing"), (int(n or 0) for n in left), strict=True)
    )
    assert sum(counts.values()) == int(baseline) + int(new)
    return {**{name: number for name, number in counts.items() if number}, "new": int(new)}


def test_renamed(suite, told) -> None:
    suite.replace("test_suite.py", "def test_other", "def test_another")
    result, junit = suite.junit()
    assert result.ret == 0
    assert sums(result) == {"measured": 11, "missing": 1, "new": 1}
    assert "missing: test_other: in the baseline and selected, but not run" in told(result)
    assert "'gpuperf rename' or 'gpuperf prune' brings the baseline up to date" in told(result)
    assert junit.get("failures") == "0"
    strict, junit = suite.junit("--gpuperf-strict")
    assert strict.ret == 1
    assert junit.get("failures") == "2"
    strict.stdout.fnmatch_lines(
        [
            "FAILED test_suite.py::test_another - new: not in baseline main*",
            "FAILED test_suite.py::test_other - missing: in the baseline and selected, but*",
        ]
    )


def test_a_removed_parameter(suite) -> None:
    suite.replace("test_suite.py", "range(10)", "range(9)")
    for selection in ([], ["test_suite.py"], ["test_suite.py::test_op", OTHER], ["."]):
        result = suite.gate(*selection, "--gpuperf-fail-on=missing")
        assert result.ret == 1
        assert sums(result) == {"measured": 10, "missing": 1, "new": 0}
        result.stdout.fnmatch_lines(["FAILED test_suite.py::test_op[[]op9[]] - missing: *"])


def test_a_removed_file(suite) -> None:
    (suite.path / "test_suite.py").unlink()
    suite.write("test_new.py", "def test_nothing():\n    pass\n")
    result = suite.gate()
    assert result.ret == 0
    assert sums(result) == {"missing": 11, "new": 0}
    assert suite.gate("--gpuperf-strict").ret == 1
    elsewhere = suite.gate("test_new.py", "--gpuperf-strict")
    assert elsewhere.ret == 0
    assert sums(elsewhere) == {"deselected": 11, "new": 0}


def test_nothing_is_left_at_all(suite) -> None:
    (suite.path / "test_suite.py").unlink()
    assert suite.gate("--gpuperf-strict").ret == 1


@pytest.mark.parametrize(
    "selection",
    [
        ["-k", "other"],
        ["-m", "chosen"],
        ["--deselect=test_suite.py::test_op"],
        [OTHER],
        ["--gpuperf-only", "-k", "other"],
        ["./test_suite.py::test_other"],
        ["--ignore=sub", "-k", "other"],
    ],
    ids=" ".join,
)
def test_deselected(suite, selection: list[str]) -> None:
    suite.write("pytest.ini", "[pytest]\nmarkers = chosen\n")
    suite.replace("test_suite.py", "def test_other", "@pytest.mark.chosen\ndef test_other")
    result = suite.gate(*selection, "--gpuperf-strict")
    assert result.ret == 0
    assert sums(result) == {"measured": 1, "deselected": 10, "new": 0}


@pytest.mark.parametrize(
    "option", ["--ignore=sub", "--ignore=sub/test_sub.py", "--ignore-glob=*/test_sub*", "--ignore-glob=s?b"]
)
def test_ignored_files_are_not_missing(suite, option: str) -> None:
    suite.write("sub/test_sub.py", "def test_sub(gpubench, work):\n    gpubench(work, 'a')\n")
    assert suite.run("--gpuperf-save-baseline", "--gpuperf-runs=1", "sub").ret == 0
    result = suite.gate(option, "--gpuperf-fail-on=missing")
    assert result.ret == 0
    assert sums(result) == {"measured": 11, "deselected": 1, "new": 0}
    (suite.path / "sub" / "test_sub.py").write_text("")
    assert suite.gate("--ignore=other", "--gpuperf-fail-on=missing", "sub").ret == 1


def test_only_benchmarks(suite) -> None:
    suite.add("test_suite.py", "\n@pytest.mark.perf\ndef test_marked():\n    pass\n")
    result = suite.gate("--gpuperf-only", "--gpuperf-strict")
    result.assert_outcomes(passed=12, deselected=1)
    assert sums(result) == {"measured": 11, "new": 0}
    plain = suite.run("--gpuperf-only")
    plain.assert_outcomes(passed=12, deselected=1)


def test_a_conftest_that_deselects(suite) -> None:
    suite.add(
        "conftest.py",
        "\ndef pytest_collection_modifyitems(config, items):\n"
        "    gone = [item for item in items if 'op1' in item.name]\n"
        "    config.hook.pytest_deselected(items=gone)\n"
        "    items[:] = [item for item in items if item not in gone]\n",
    )
    result = suite.gate("--gpuperf-strict")
    assert result.ret == 0
    assert sums(result) == {"measured": 10, "deselected": 1, "new": 0}


def test_a_conftest_that_drops_without_a_word_is_found_out(suite) -> None:
    suite.add(
        "conftest.py",
        "\ndef pytest_collection_modifyitems(items):\n    items[:] = [i for i in items if 'op1' not in i.name]\n",
    )
    result = suite.gate("--gpuperf-strict")
    assert result.ret == 1
    assert sums(result) == {"measured": 10, "missing": 1, "new": 0}


SKIPS = {
    "mark": ("@pytest.mark.skip(reason='today')\ndef test_other", ""),
    "skipif": ("@pytest.mark.skipif(True, reason='today')\ndef test_other", ""),
    "call": ("def test_other", "    pytest.skip('today')\n"),
    "after": ("def test_other", "    gpubench(work, 'other')\n    pytest.skip('today')\n"),
    "xfail": ("@pytest.mark.xfail\ndef test_other", "    gpubench(work, 'other')\n    assert False\n"),
    "not run": ("@pytest.mark.xfail(run=False)\ndef test_other", ""),
    "imperative": ("def test_other", "    pytest.xfail('today')\n"),
}


@pytest.mark.parametrize("kind", SKIPS)
def test_skipped_and_xfailed(suite, kind: str) -> None:
    header, body = SKIPS[kind]
    suite.replace("test_suite.py", "def test_other", header)
    suite.replace("test_suite.py", '    assert gpubench(work, "other") == "other"\n', body or "    pass\n")
    before = suite.baseline_file().read_bytes()
    result = suite.gate("--gpuperf-strict")
    assert result.ret == 0
    assert sums(result) == {"measured": 10, "skipped": 1, "new": 0}
    assert suite.run("--gpuperf-save-baseline", "--gpuperf-runs=1", OTHER).ret == 0
    assert suite.baseline_file().read_bytes() == before


FAILURES = {
    "before": "    assert False\n    gpubench(work, 'other')\n",
    "after": "    gpubench(work, 'other')\n    assert False\n",
    "setup": "    request.getfixturevalue('broken')\n",
    "teardown": "    gpubench(work, 'other')\n    request.addfinalizer(lambda: 1 / 0)\n",
    "strict xpass": "    gpubench(work, 'other')\n",
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_test_that_fails_by_itself_has_no_verdict_and_is_not_stored(suite, kind: str) -> None:
    suite.add("conftest.py", "\n@pytest.fixture\ndef broken():\n    raise OSError('broken')\n")
    suite.replace("test_suite.py", "def test_other(gpubench, work)", "def test_other(gpubench, work, request)")
    suite.replace("test_suite.py", '    assert gpubench(work, "other") == "other"\n', FAILURES[kind])
    if kind == "strict xpass":
        suite.replace("test_suite.py", "def test_other", "@pytest.mark.xfail(strict=True)\ndef test_other")
    suite.times(other=500.0)
    before = suite.baseline_file().read_bytes()
    result = suite.gate()
    assert result.ret == 1
    assert sums(result) == {"measured": 10, "failed": 1, "new": 0}
    assert "slower" not in result.stdout.str()
    for storing in (
        ["--gpuperf-save-baseline"],
        ["--gpuperf", "--gpuperf-save-baseline"],
        ["--gpuperf-extend-baseline"],
    ):
        assert suite.run(*storing, "--gpuperf-runs=1", OTHER).ret == 1
        assert suite.baseline_file().read_bytes() == before


def test_an_xpassed_test_that_regressed_is_what_its_mark_expects(suite) -> None:
    suite.replace("test_suite.py", "def test_other", "@pytest.mark.xfail(reason='known slow')\ndef test_other")
    suite.times(other=130.0)
    result = suite.gate()
    assert result.ret == 0
    result.assert_outcomes(passed=11, xfailed=1)
    assert sums(result) == {"measured": 11, "new": 0}
    suite.times()
    result = suite.gate()
    result.assert_outcomes(passed=11, xpassed=1)


@pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="subtests are part of pytest since version 9")
def test_a_failed_subtest_fails_its_test(suite) -> None:
    suite.replace("test_suite.py", "def test_other(gpubench, work)", "def test_other(gpubench, work, subtests)")
    suite.replace(
        "test_suite.py",
        'assert gpubench(work, "other") == "other"',
        "with subtests.test():\n        gpubench(work, 'other')\n        assert False",
    )
    before = suite.baseline_file().read_bytes()
    result = suite.gate()
    assert result.ret == 1
    assert sums(result) == {"measured": 10, "failed": 1, "new": 0}
    assert suite.run("--gpuperf-save-baseline", "--gpuperf-runs=1", OTHER).ret == 1
    assert suite.baseline_file().read_bytes() == before
    suite.replace("test_suite.py", "assert False", "assert True")
    assert sums(suite.gate()) == {"measured": 11, "new": 0}


def test_a_benchmark_made_by_a_fixture_belongs_to_its_test(suite) -> None:
    suite.add("conftest.py", "\n@pytest.fixture\ndef done(gpubench, work):\n    return gpubench(work, 'other')\n")
    suite.replace("test_suite.py", "def test_other(gpubench, work)", "def test_other(done)")
    suite.replace("test_suite.py", 'gpubench(work, "other")', "done")
    suite.times(other=130.0)
    result = suite.gate()
    assert result.ret == 1
    assert sums(result) == {"measured": 11, "new": 0}
    result.stdout.fnmatch_lines(["FAILED test_suite.py::test_other - slower by *"])


def test_a_benchmark_that_its_test_no_longer_makes_is_missing(suite) -> None:
    suite.replace("test_suite.py", 'assert gpubench(work, "other") == "other"', "pass")
    assert sums(suite.gate()) == {"measured": 10, "missing": 1, "new": 0}
    result, junit = suite.junit("--gpuperf-strict")
    assert result.ret == 1
    assert junit.get("failures") == "1"


MIXTURE = """
import pytest

@pytest.mark.skip
def test_skipped(gpubench, work): gpubench(work, "a")

def test_failed(gpubench, work): gpubench(work, "a"); assert False

@pytest.mark.xfail
def test_xfailed(gpubench, work): gpubench(work, "a"); assert False

@pytest.mark.perf
def test_marked(): pass

def test_named(gpubench, work):
    for name in "abc":
        gpubench.run(work, ["a"], name=name)

def test_plain(): pass
"""


@pytest.mark.parametrize(
    "selection", [[], ["-k", "op or named"], ["-k", "not op"], ["test_mixture.py"], ["-x"], ["--co"]], ids=str
)
@pytest.mark.parametrize("known", [True, False])
def test_mixtures_add_up(suite, selection: list[str], known: bool) -> None:
    good = MIXTURE.replace("@pytest.mark.skip\n", "").replace("@pytest.mark.xfail\n", "").replace("; assert False", "")
    suite.write("test_mixture.py", good)
    if known:
        assert suite.run("--gpuperf-save-baseline", "--gpuperf-runs=1", "test_mixture.py").ret == 0
    suite.write("test_mixture.py", MIXTURE)
    suite.replace("test_suite.py", "range(10)", "range(1, 11)")
    result = suite.run("--gpuperf", "--gpuperf-confirm-runs=1", *selection)
    if selection == ["--co"]:
        assert "measured" not in result.stdout.str()
        assert result.ret == 0
        return
    assert sums(result)


def test_collecting_measures_nothing_and_writes_nothing(suite) -> None:
    before = sorted(suite.path.rglob("*"))
    for arguments in (["--gpuperf"], ["--gpuperf-save-baseline"], ["--gpuperf", "--gpuperf-strict"]):
        result = suite.run("--collect-only", *arguments)
        assert result.ret == 0
        assert "measured" not in result.stdout.str()
    assert sorted(suite.path.rglob("*")) == before


def test_errors_in_collection_stop_the_session(suite) -> None:
    suite.write("test_broken.py", "import nothing_of_this_name\n")
    result = suite.gate()
    assert result.ret == 2
    assert "measured" not in result.stdout.str()
    going_on = suite.gate("--continue-on-collection-errors")
    assert going_on.ret == 1
    assert sums(going_on) == {"measured": 11, "new": 0}


def test_what_a_session_found_missing_can_be_pruned_and_nothing_else(suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite.path)
    suite.replace(
        "test_suite.py",
        "def test_other(gpubench, work):",
        '@pytest.mark.parametrize("kind", ["x"])\ndef test_other(gpubench, work, kind):',
    )
    suite.run("--gpuperf-save-baseline", "--gpuperf-runs=5", "-k", "test_other")
    assert {"test_suite.py::test_other", "test_suite.py::test_other[x]"} < set(suite.entries())
    assert suite.verdicts()["test_suite.py::test_other"] == "missing"
    assert main(["prune", "--missing-in", "latest"]) == 0
    assert "test_suite.py::test_other" not in suite.entries()
    assert "test_suite.py::test_other[x]" in suite.entries()
    assert len(suite.entries()) == 11


def test_what_a_stopped_session_did_not_come_to_cannot_be_pruned(suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(suite.path)
    suite.times(op1=150.0)
    result = suite.gate("-x")
    assert sums(result)["missing"] == 9
    assert main(["prune", "--missing-in", "latest"]) == 2
    assert len(suite.entries()) == 11


@pytest.mark.parametrize("option", ["--setup-plan", "--setup-only", "--collect-only"])
def test_nothing_is_missing_where_no_test_was_to_run(suite, option: str) -> None:
    before = sorted(suite.storage.rglob("*"))
    result = suite.gate("--gpuperf-strict", option)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*measured*")
    assert sorted(suite.storage.rglob("*")) == before
