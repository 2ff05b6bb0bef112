"""pytest-xdist measures one benchmark at a time, and its controller tells the verdicts and stores one file."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("xdist")

OTHER = "test_suite.py::test_other"


def parallel(suite, *arguments: str, workers: int = 2) -> pytest.RunResult:
    """Gate with some workers."""
    return suite.process(f"-n{workers}", "--gpuperf", "--gpuperf-confirm-runs=4", *arguments)


@pytest.mark.parametrize(
    "dist",
    ["load", "loadgroup", *(pytest.param(name, marks=pytest.mark.slow) for name in ("loadfile", "worksteal", "each"))],
)
def test_a_regression_fails_its_own_test(suite, dist: str) -> None:
    suite.write("test_more.py", "def test_more():\n    pass\n")
    suite.replace("test_suite.py", "def test_other", '@pytest.mark.xdist_group("a b")\ndef test_other')
    suite.times(other=130.0)
    workers = 1 if dist == "each" else 2
    result = parallel(suite, f"--dist={dist}", "--junitxml=junit.xml", "--gpuperf-json=out.json", workers=workers)
    assert result.ret == 1
    result.assert_outcomes(passed=12, failed=1)
    result.stdout.fnmatch_lines(
        [
            "slower by * over 10 + 5 runs, p = *",
            "*1 regressed, 10 unchanged*",
            "11 measured = 11 in the baseline + 0 new",
            "FAILED test_suite.py::test_other* - slower by *",
        ]
    )
    junit = suite.junit_suite()
    assert (junit.get("tests"), junit.get("failures"), junit.get("errors")) == ("13", "1", "0")
    assert suite.verdicts_in("out.json")[OTHER] == "regressed"


def test_unchanged_code_passes(suite) -> None:
    result = parallel(suite, "--gpuperf-strict")
    assert result.ret == 0
    result.assert_outcomes(passed=12)
    result.stdout.fnmatch_lines(["11 measured = 11 in the baseline + 0 new"])


def test_both_workers_measure_one_at_a_time(suite) -> None:
    suite.replace(
        "conftest.py",
        "        backend.clock.advance_us(",
        "        with (HERE / 'calls').open('a') as file:\n"
        "            file.write(f'{os.getpid()}\\n')\n"
        "        backend.clock.advance_us(",
    )
    suite.replace("test_suite.py", "range(10)", "range(6)")
    result = parallel(suite, "--gpuperf-trials=200", "--dist=load", "--maxschedchunk=1", "-k", "op")
    assert result.ret == 0
    calls = (suite.path / "calls").read_text().split()
    # A test's first call is made outside the lock, so that single calls of another process may fall in between.
    runs = [len(list(match.group(0).split())) for match in re.finditer(r"(\d+)(?: \1)*", " ".join(calls))]
    # Both workers, and the fresh processes of what they found suspect, which wait for the same lock.
    assert len(set(calls)) >= 2
    assert sum(length < 10 for length in runs) < 0.02 * len(calls)


def test_saving_from_the_controller(new_suite) -> None:
    result = new_suite.process("-n2", "--gpuperf-save-baseline", "--gpuperf-runs=3")
    assert result.ret == 0
    assert len(new_suite.entries()) == 11
    assert {len(entry.runs) for entry in new_suite.entries().values()} == {3}
    (session,) = (new_suite.storage / "sessions" / "Fake-GPU").iterdir()
    assert len(json.loads(session.read_text())["outcomes"]) == 11
    assert len(new_suite.baseline().sessions) == 1


def test_gating_and_saving_from_the_controller(suite) -> None:
    before = suite.entries()
    suite.times(other=130.0, op1=70.0)
    suite.add("test_suite.py", "\ndef test_more(gpubench, work):\n    gpubench(work, 'more')\n")
    result = parallel(suite, "--gpuperf-save-baseline", "--gpuperf-runs=5")
    assert result.ret == 1
    after = suite.entries()
    assert after.keys() - before.keys() == {"test_suite.py::test_more"}
    assert {label for label in before if before[label] != after[label]} == {"test_suite.py::test_op[op1]"}


def test_what_was_deselected_is_not_missing(suite) -> None:
    result = parallel(suite, "--gpuperf-strict", "-k", "op1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["1 measured + 10 deselected = 11 in the baseline + 0 new"])


def test_a_removed_test_is_missing(suite) -> None:
    suite.replace("test_suite.py", "def test_other", "def test_another")
    result = parallel(suite, "--gpuperf-strict")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["11 measured + 1 missing = 11 in the baseline + 1 new"])


def test_a_worker_that_crashes_is_no_silent_pass(suite) -> None:
    suite.replace("test_suite.py", 'assert gpubench(work, "other") == "other"', "__import__('os')._exit(1)")
    result = parallel(suite, "--gpuperf-fail-on=regressed,missing")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*worker 'gw?' crashed while running 'test_suite.py::test_other'*"])
    result.stdout.fnmatch_lines(["10 measured + 1 failed = 11 in the baseline + 0 new"])


def test_a_worker_that_crashes_takes_no_other_benchmark_along(suite) -> None:
    suite.replace(
        "test_suite.py", "def test_no_benchmark():\n    pass", "def test_no_benchmark():\n    __import__('os')._exit(1)"
    )
    suite.times(other=130.0)
    result = parallel(suite)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["11 measured = 11 in the baseline + 0 new"])
    result.stdout.fnmatch_lines(["FAILED test_suite.py::test_other - slower by *"])


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda suite: suite.baseline_file().write_text("{"), "main.json"),
        (lambda suite: suite.write("pytest.ini", "[pytest]\ngpuperf_bogus = 1\n"), "unknown ini key"),
        (
            lambda suite: suite.add("test_suite.py", "\n@pytest.mark.perf(bogus=1)\ndef test_x(): pass\n"),
            "no argument 'bogus'",
        ),
    ],
    ids=["baseline", "ini", "marker"],
)
def test_what_cannot_be_used_is_refused(suite, told, break_it, message: str) -> None:
    break_it(suite)
    result = parallel(suite)
    assert result.ret == 4
    assert message in told(result)
    assert "INTERNALERROR" not in told(result)
    assert " passed" not in told(result)


def test_exitfirst(suite) -> None:
    suite.times(op0=130.0)
    result = parallel(suite, "-x")
    assert result.ret in (1, 2)
    result.stdout.fnmatch_lines(["FAILED test_suite.py::test_op[[]op0[]] - slower by *"])


def test_a_lost_device_is_no_silent_pass(suite, told) -> None:
    suite.add(
        "test_suite.py",
        "\ndef test_a_break(gpubench):\n    from pytest_gpuperf.measure.backends.fake import FakeDeviceError\n"
        "    def broken():\n        raise FakeDeviceError('illegal memory access')\n    gpubench(broken)\n",
    )
    result = parallel(suite)
    assert result.ret in (1, 2)
    assert "test_a_break" in told(result)


def test_collecting_only(suite) -> None:
    before = sorted(path for path in suite.path.rglob("*") if not path.name.startswith(("std", "runpytest")))
    result = suite.process("-n2", "--gpuperf", "--collect-only", "-q")
    assert result.ret == 0
    assert "measured" not in result.stdout.str()
    after = sorted(path for path in suite.path.rglob("*") if not path.name.startswith(("std", "runpytest")))
    assert after == before


def test_plain_sessions_are_left_alone(suite) -> None:
    result = suite.process("-n2")
    result.assert_outcomes(passed=12)
    assert "gpuperf:" not in result.stdout.str()
