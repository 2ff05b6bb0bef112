"""What a session writes: accepted entries, added runs, session records, results for others to read; and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.store.codec import decode_session

OTHER = "test_suite.py::test_other"


def changed(before: dict[str, object], after: dict[str, object]) -> set[str]:
    """Return the labels of the entries that differ."""
    return {label for label in before.keys() | after.keys() if before.get(label) != after.get(label)}


def test_a_partial_run_leaves_the_other_entries(suite) -> None:
    before = suite.entries()
    assert suite.run("--gpuperf-save-baseline", "--gpuperf-runs=2", OTHER).ret == 0
    after = suite.entries()
    assert changed(before, after) == {OTHER}
    assert len(after[OTHER].runs) == 2
    assert len(suite.baseline().sessions) == 2
    assert suite.run("--gpuperf-save-baseline=other", "--gpuperf-runs=1", "-k", "op1").ret == 0
    assert len(suite.entries("other")) == 1
    assert suite.entries() == after


def test_saving_says_what_changed_and_fails_nothing(suite, told) -> None:
    suite.times(op1=130.0, op2=70.0)
    result = suite.run("--gpuperf-save-baseline", "-k", "op1 or op2 or other")
    assert result.ret == 0
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["test_op[[]op1[]] * regressed", "test_op[[]op2[]] * improved", "test_other * unchanged"]
    )
    assert "3 benchmarks stored in baseline main." in told(result)
    assert suite.verdicts("-k", "op1 or op2") == {
        "test_suite.py::test_op[op1]": "unchanged",
        "test_suite.py::test_op[op2]": "unchanged",
    }


def test_a_gate_stores_only_what_its_verdict_allows(suite, told) -> None:
    suite.add("test_suite.py", "\ndef test_more(gpubench, work):\n    gpubench(work, 'more')\n")
    suite.times(op1=130.0, op2=70.0)
    before = suite.entries()
    result = suite.gate("--gpuperf-save-baseline", "--gpuperf-runs=5", "-k", "op1 or op2 or other or more")
    assert result.ret == 1
    assert changed(before, suite.entries()) == {"test_suite.py::test_op[op2]", "test_suite.py::test_more"}
    assert len(suite.entries()["test_suite.py::test_more"].runs) == 5
    assert "Not stored (regressed: the entry stays as it is): test_suite.py::test_op[op1]." in told(result)
    assert "Not stored (unchanged: the entry stays as it is): test_suite.py::test_other." in told(result)


def test_a_gate_on_one_baseline_can_fill_another(suite) -> None:
    suite.times(op1=130.0)
    result = suite.gate("--gpuperf-save-baseline=next", "--gpuperf-runs=5", "-k", "op1 or other")
    assert result.ret == 1
    assert list(suite.entries("next")) == [OTHER]
    assert len(suite.entries("next")[OTHER].runs) == 5


def test_small_slowdowns_do_not_add_up(suite) -> None:
    before = suite.entries()[OTHER]
    for step in range(1, 4):
        suite.times(other=100.0 * 1.004**step)
        suite.gate("--gpuperf-save-baseline", "--gpuperf-runs=5", OTHER)
    assert suite.entries()[OTHER] == before


def test_extending_adds_runs_of_another_session(suite, told) -> None:
    before = suite.entries()
    result = suite.run("--gpuperf-extend-baseline", "--gpuperf-runs=3", OTHER)
    assert result.ret == 0
    assert "1 benchmark extended in baseline main." in told(result)
    after = suite.entries()
    assert changed(before, after) == {OTHER}
    assert after[OTHER].runs[:10] == before[OTHER].runs
    assert len(after[OTHER].runs) == 13
    assert len({run.session for run in after[OTHER].runs}) == 2


def test_extending_what_is_not_there_starts_it(new_suite) -> None:
    assert new_suite.run("--gpuperf-extend-baseline=fresh", "--gpuperf-runs=2", OTHER).ret == 0
    assert [len(entry.runs) for entry in new_suite.entries("fresh").values()] == [2]


def test_extending_under_the_gate_refuses_the_regressed(suite) -> None:
    suite.times(other=130.0)
    before = suite.entries()
    result = suite.gate("--gpuperf-extend-baseline", "--gpuperf-runs=3", "-k", "op1 or other")
    assert result.ret == 1
    assert changed(before, suite.entries()) == {"test_suite.py::test_op[op1]"}
    assert len(suite.entries()["test_suite.py::test_op[op1]"].runs) > 10


def test_extending_another_baseline_that_does_not_fit(suite, told) -> None:
    assert suite.run("--gpuperf-save-baseline=walled", "--gpuperf-timer=wall", "--gpuperf-runs=2", OTHER).ret == 0
    before = suite.entries("walled")
    result = suite.run("--gpuperf", "--gpuperf-extend-baseline=walled", "--gpuperf-runs=2", OTHER)
    assert "these entries cannot be extended" in told(result) or "not comparable with the entry" in told(result)
    assert "INTERNALERROR" not in told(result)
    assert suite.entries("walled") == before


def test_saving_again_changes_only_the_runs(suite) -> None:
    first = suite.baseline_file().read_bytes()
    suite.run("--gpuperf")
    assert suite.baseline_file().read_bytes() == first


HAZARDS = {
    "tracer": "sys.settrace(lambda *_: None)",
    "blocking launches": "os.environ.__setitem__('CUDA_LAUNCH_BLOCKING', '1')",
}
MENDED = """
@pytest.fixture(autouse=True)
def mend():
    import os, sys
    yield
    sys.settrace(None)
    os.environ.pop("CUDA_LAUNCH_BLOCKING", None)
"""


@pytest.mark.parametrize("hazard", HAZARDS)
def test_what_was_measured_under_a_hazard_is_not_stored(
    new_suite, told, hazard: str, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    start = "def test_other(gpubench, work):\n"
    new_suite.replace("test_suite.py", start, f"{start}    import os, sys\n    {HAZARDS[hazard]}\n")
    new_suite.add("test_suite.py", MENDED)
    result = new_suite.run("--gpuperf-save-baseline", "--gpuperf-runs=2", OTHER)
    assert result.ret == 0
    assert "Not stored (measured while " in told(result)
    assert "--gpuperf-force stores it all the same" in told(result)
    assert not new_suite.baseline_file().exists()
    assert new_suite.run("--gpuperf-save-baseline", "--gpuperf-runs=2", "--gpuperf-force", OTHER).ret == 0
    assert new_suite.baseline_file().exists()
    gated = told(new_suite.gate(OTHER))
    assert gated.count("Measured while ") == 1
    assert "Verdicts on such times are doubtful" in gated
    assert main(["accept", "latest", "--extend", f"--storage={new_suite.storage}"]) == 2
    assert "measured while " in capsys.readouterr().err
    new_suite.replace("test_suite.py", f"    {HAZARDS[hazard]}\n", "")
    assert "Measured while " not in told(new_suite.gate(OTHER))


def records(suite) -> list[Path]:
    """Return the files of the sessions' records."""
    return sorted((suite.storage / "sessions").rglob("*.json"))


@pytest.mark.parametrize("option", ["--gpuperf-save-baseline", "--gpuperf-extend-baseline"])
def test_arguments_drawn_anew_in_every_process_replace_nothing(suite, told, option: str) -> None:
    before = suite.entries()
    start = "def test_other(gpubench, work):\n"
    draw = "    from random import SystemRandom\n    gpubench(lambda x: work('other'), SystemRandom().random())\n"
    suite.replace("test_suite.py", start, f"{start}{draw}    return\n")
    result = suite.run(option, "--gpuperf-runs=3", OTHER)
    assert result.ret == 0
    assert "Nothing was stored in baseline main." in told(result)
    if "save" in option:
        assert "its processes measured different workloads; seed what is drawn at random (workload: 0." in told(result)
    assert suite.entries() == before
    gated = suite.run("--gpuperf", OTHER)
    assert ", or seed these arguments if they are drawn at random" in told(gated)


@pytest.mark.parametrize("draw", ["[r.random() for _ in range(20)]", "f'{r.random():.6f}' * 9", "{r.random(): 1} | X"])
def test_long_data_drawn_anew_is_stored_and_gated(suite, told, draw: str) -> None:
    start = "def test_other(gpubench, work):\n"
    body = f"    import random; r = random.SystemRandom(); X = {{float(i): i for i in range(9)}}\n    x = {draw}\n"
    suite.replace("test_suite.py", start, f"{start}{body}    gpubench(lambda x: work('other'), x)\n    return\n")
    assert suite.run("--gpuperf-save-baseline", OTHER).ret == 0
    assert len(suite.entries()[OTHER].runs) >= 5
    assert suite.verdicts(OTHER)[OTHER] == "unchanged"
    suite.times(other=300.0)
    result = suite.run("--gpuperf", OTHER)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["test_other * regressed"])


def test_every_measuring_session_keeps_a_record(suite) -> None:
    count = len(records(suite))
    suite.times(other=130.0)
    suite.gate("-k", "op1 or other")
    assert len(records(suite)) == count + 1
    record = decode_session(records(suite)[-1].read_bytes(), "the record")
    verdicts = {outcome.benchmark.label: outcome.decision.verdict for outcome in record.outcomes}
    assert verdicts == {"test_suite.py::test_op[op1]": "unchanged", OTHER: "regressed"}
    regressed = next(outcome for outcome in record.outcomes if outcome.benchmark.label == OTHER)
    assert len(regressed.runs) == len(regressed.trials) == 5
    assert record.accounting == {
        "measured": 2,
        "failed": 0,
        "skipped": 0,
        "deselected": 9,
        "missing": 0,
        "baseline": 11,
        "new": 0,
    }
    suite.run()
    assert len(records(suite)) == count + 1


def test_json_is_complete_even_when_tests_fail(suite) -> None:
    suite.add("test_suite.py", "\ndef test_zero():\n    assert False\n")
    suite.replace("test_suite.py", '== "other"', '== "something else"')
    suite.times(op1=130.0)
    result = suite.gate("--gpuperf-json=deep/er/out.json", "-k", "op1 or op2 or other or zero")
    assert result.ret == 1
    content = suite.json("deep/er/out.json")
    assert content["format"] == "pytest-gpuperf session"
    assert content["accounting"]["failed"] == 1
    assert content["info"]["machine"]["model"] == "Fake GPU"
    assert content["settings"]["confirm_runs"] == 4
    outcomes = {outcome["benchmark"]["node_id"]: outcome for outcome in content["outcomes"]}
    assert sorted(outcomes) == ["test_suite.py::test_op[op1]", "test_suite.py::test_op[op2]"]
    slow = outcomes["test_suite.py::test_op[op1]"]
    assert slow["decision"]["verdict"] == "regressed"
    assert slow["decision"]["ratio"] == pytest.approx(1.3, rel=0.02)
    assert len(slow["runs"]) == len(slow["trials"]) == 5
    assert len(slow["trials"][0]["times_us"]) == slow["runs"][0]["trials"]
    assert decode_session((suite.path / "deep/er/out.json").read_bytes(), "it").accounting["failed"] == 1


def test_json_lies_where_pytest_was_started(suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.replace(
        "test_suite.py", "def test_other(gpubench, work):", "def test_other(gpubench, work, monkeypatch, tmp_path):"
    )
    suite.replace(
        "test_suite.py",
        'assert gpubench(work, "other")',
        '__import__("os").chdir(tmp_path)\n    assert gpubench(work, "other")',
    )
    (suite.path / "below").mkdir()
    monkeypatch.chdir(suite.path / "below")
    suite.gate("../test_suite.py::test_other", "--gpuperf-json=out.json")
    assert json.loads((suite.path / "below" / "out.json").read_text())


@pytest.mark.parametrize("path", ["folder", "file/out.json"])
def test_json_that_cannot_be_written_is_refused_at_once(suite, path: str) -> None:
    (suite.path / "folder").mkdir()
    (suite.path / "file").write_text("")
    result = suite.gate(f"--gpuperf-json={path}", OTHER)
    assert result.ret == 4
    result.assert_outcomes()
    (line,) = [line for line in result.errlines + result.outlines if line.startswith("ERROR:")]
    assert "--gpuperf-json: " in line
    assert path in line


def test_a_failing_session_with_json_elsewhere_writes_no_other_file(suite, tmp_path: Path) -> None:
    before = {path for path in suite.path.rglob("*") if ".gpuperf" not in path.parts}
    suite.gate(OTHER, f"--gpuperf-json={tmp_path / 'out.json'}")
    assert {path for path in suite.path.rglob("*") if ".gpuperf" not in path.parts} == before


def test_session_records_lie_in_the_order_of_their_sessions(suite) -> None:
    seen = [path.name for path in records(suite)]
    for number in range(4):
        suite.gate("-k", f"op{number}")
        (added,) = {path.name for path in records(suite)} - set(seen)
        seen.append(added)
    assert seen == sorted(seen)
