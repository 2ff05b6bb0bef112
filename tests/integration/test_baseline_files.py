"""A baseline that is absent, damaged or of something else is told as such; it is never overwritten unasked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

OTHER = "test_suite.py::test_other"


def test_absent(suite, told) -> None:
    suite.baseline_file().unlink()
    result = suite.gate(OTHER)
    assert result.ret == 0
    assert "There is no baseline main for these benchmarks yet: pytest --gpuperf-save-baseline" in told(result)
    result.stdout.fnmatch_lines(["1 measured = 0 in the baseline + 1 new"])
    assert "no baseline nightly" in told(nightly := suite.gate("--gpuperf-baseline=nightly", OTHER))
    assert "pytest --gpuperf-save-baseline=nightly saves one" in told(nightly)
    strict, junit = suite.junit("--gpuperf-strict", OTHER)
    assert strict.ret == 1
    assert junit.get("failures") == "1"
    strict.stdout.fnmatch_lines(["FAILED test_suite.py::test_other - new: not in baseline main; *"])


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _newer(path: Path) -> None:
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 999', 1))


def _foreign(path: Path) -> None:
    path.write_text('{"benchmarks": []}')


def _by_hand(path: Path) -> None:
    content = json.loads(path.read_text())
    next(iter(content["entries"].values()))["runs"] = "many"
    path.write_text(json.dumps(content))


def _conflict(path: Path) -> None:
    path.write_text(path.read_text().replace('"entries"', '<<<<<<< HEAD\n"entries"', 1))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere.json")


def _of_another_machine(path: Path) -> None:
    path.write_text(path.read_text().replace('"machine_model": "Fake GPU"', '"machine_model": "Other GPU"', 1))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncated, "is cut off"),
        (_empty, "is empty"),
        (_newer, "was written at schema 999"),
        (_foreign, "is not a pytest-gpuperf baseline"),
        (_by_hand, "does not fit its schema"),
        (_conflict, "main.json: "),
        (_folder, "cannot be read (Is a directory)"),
        (_dangling, "is a symbolic link to nowhere.json"),
        (_of_another_machine, 'is of the machine model "Other GPU"'),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_unusable(suite, damage: Callable[[Path], None], message: str) -> None:
    path = suite.baseline_file()
    damage(path)
    before = path.read_bytes() if path.is_file() else None
    for arguments in (["--gpuperf"], ["--gpuperf-save-baseline"], ["--gpuperf", "--gpuperf-extend-baseline"]):
        result = suite.run(*arguments)
        assert result.ret == 4
        (line,) = [line for line in result.errlines + result.outlines if line.startswith("ERROR:")]
        assert message in line
        assert "main.json" in line
        result.assert_outcomes()
        assert (path.read_bytes() if path.is_file() else None) == before
    assert suite.run().ret == 0


@pytest.mark.parametrize("storage", ["a file", "below/a file"])
def test_storage_that_cannot_be_written(suite, storage: str) -> None:
    (suite.path / "a file").write_text("")
    (suite.path / "below").symlink_to(".")
    gating = suite.gate(OTHER, f"--gpuperf-storage={storage}")
    assert gating.ret in (0, 4)
    for arguments in (["--gpuperf-save-baseline"], ["--gpuperf", "--gpuperf-save-baseline=new"]):
        result = suite.run(OTHER, f"--gpuperf-storage={storage}", *arguments)
        assert result.ret == 4
        result.assert_outcomes()
        (line,) = [line for line in result.errlines + result.outlines if line.startswith("ERROR:")]
        assert "a file" in line
        assert "--gpuperf-storage" in line


def test_gating_works_where_the_record_cannot_be_kept(suite, told) -> None:
    sessions = suite.storage / "sessions"
    for file in sorted(sessions.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    sessions.rmdir()
    sessions.write_text("in the way")
    result = suite.gate(OTHER)
    assert result.ret == 0
    assert "The session's record was not kept: " in told(result)
    result.stdout.fnmatch_lines(["*1 unchanged*"])


def test_a_read_only_baseline_is_refused_before_anything_is_measured(suite) -> None:
    suite.baseline_file().chmod(0o444)
    assert suite.gate(OTHER).ret == 0
    result = suite.run(OTHER, "--gpuperf-save-baseline")
    assert result.ret == 4
    result.assert_outcomes()
    assert "marked read-only" in "".join(result.errlines + result.outlines)


def test_storage_that_breaks_in_the_middle_of_saving(suite) -> None:
    before = suite.baseline_file().read_bytes()
    suite.add(
        "conftest.py",
        "\ndef pytest_runtest_logfinish(nodeid):\n"
        "    (HERE / '.gpuperf' / 'baselines' / 'Fake-GPU' / 'main.json').chmod(0o444)\n",
    )
    result = suite.run(OTHER, "--gpuperf-save-baseline", "--gpuperf-runs=1", "--gpuperf-json=out.json")
    assert result.ret == 4
    result.stdout.fnmatch_lines(["test_other * us *", "1 measured *"])
    assert len(suite.json("out.json")["outcomes"]) == 1
    assert "marked read-only" in "".join(result.errlines + result.outlines)
    assert suite.baseline_file().read_bytes() == before


def test_another_gpu_model(suite, told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUITE_MODEL", "Other GPU")
    result = suite.gate(OTHER)
    assert result.ret == 0
    assert "incomparable: test_other: baseline main was measured on Fake-GPU, not on this machine" in told(result)
    result.stdout.fnmatch_lines(["1 incomparable"])
    assert suite.gate(OTHER, "--gpuperf-strict").ret == 1
    assert suite.run(OTHER, "--gpuperf-save-baseline", "--gpuperf-runs=1").ret == 0
    assert suite.baseline_file(model="Other-GPU").exists()
    assert len(suite.entries()) == 11


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (["--gpuperf-timer=wall"], "timer: events, scripted in the baseline, now wall, scripted"),
        (["--gpuperf-cache=warm"], "cache mode: cold in the baseline, now warm"),
    ],
)
def test_measured_in_another_way(suite, told, change: list[str], reason: str) -> None:
    result, junit = suite.junit(OTHER, *change)
    assert result.ret == 0
    assert junit.get("failures") == "0"
    assert f"incomparable: test_other: measured differently from the baseline ({reason})" in told(result)
    strict = suite.gate(OTHER, *change, "--gpuperf-strict")
    assert strict.ret == 1
    strict.stdout.fnmatch_lines(["FAILED test_suite.py::test_other - incomparable: *"])
    before = suite.baseline_file().read_bytes()
    both = suite.gate(OTHER, *change, "--gpuperf-save-baseline")
    assert "Not stored (incomparable: the entry stays as it is): test_suite.py::test_other." in told(both)
    extending = suite.run(OTHER, *change, "--gpuperf-extend-baseline", "--gpuperf-runs=1")
    assert "Not stored (not comparable with the entry it would extend" in told(extending)
    assert suite.baseline_file().read_bytes() == before


def test_another_workload(suite, told) -> None:
    suite.replace("test_suite.py", 'gpubench(work, "other")', 'gpubench.run(work, ["other"], bytes_moved=1e6)')
    result = suite.gate(OTHER)
    assert result.ret == 0
    assert "bytes moved: not stated in the baseline, now 1000000" in told(result)


def test_another_kind_of_timer_by_default_keeps_to_the_stored_one(suite) -> None:
    assert suite.run(OTHER, "--gpuperf-save-baseline", "--gpuperf-timer=wall").ret == 0
    assert suite.entries()[OTHER].identity.timer == "wall, scripted"
    assert suite.verdicts(OTHER) == {OTHER: "unchanged"}


def test_storage_is_anchored_where_it_was_said(suite, monkeypatch: pytest.MonkeyPatch) -> None:
    (suite.path / "below").mkdir()
    (suite.storage).rename(suite.path / "kept")
    monkeypatch.chdir(suite.path / "below")
    assert "1 unchanged" in suite.gate("../test_suite.py::test_other", "--gpuperf-storage=../kept").stdout.str()
    suite.write("pytest.ini", "[pytest]\ngpuperf_storage = kept\n")
    assert "1 unchanged" in suite.gate("../test_suite.py::test_other").stdout.str()
    assert (
        "1 unchanged"
        in suite.gate("../test_suite.py::test_other", f"--gpuperf-storage=file://{suite.path}/kept").stdout.str()
    )
    assert list((suite.path / "below").iterdir()) == []


def test_baselines_have_names(suite) -> None:
    assert suite.run(OTHER, "--gpuperf-save-baseline=v1", "--gpuperf-runs=5").ret == 0
    assert list(suite.entries("v1")) == [OTHER]
    result = suite.gate("--gpuperf-baseline=v1", "-k", "other or op1")
    result.stdout.fnmatch_lines(["*baseline v1*", "2 measured = 1 in the baseline + 1 new"])
    assert suite.gate("--gpuperf-baseline=v2", OTHER, "--gpuperf-strict").ret == 1
