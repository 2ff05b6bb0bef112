"""`gpuperf compare`: the verdicts, offline, with exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpuperf.commands.offline import compare_sources
from pytest_gpuperf.commands.sources import find_source
from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.codec import decode_session
from pytest_gpuperf.store.schema import Entry, SessionInfo
from pytest_gpuperf.store.storage import Storage

SLOW = "perf/test_gelu.py::test_gelu[triton]"


def _save(storage: Storage, name: str, *entries: Entry, model: str = "NVIDIA H200") -> None:
    info = SessionInfo(id=f"of-{name}", started="2026-12-02T10:00:00Z", machine=Machine(model=model, kind="cuda"))
    baselines.update(storage, info.machine.key, name, lambda old: baselines.replace_entries(old, entries, info))


def _verdicts(out: str) -> dict[str, str]:
    table = out.partition("-----\n")[2].partition("\n\n")[0]
    return {line.split()[0]: line.split()[-1] for line in table.splitlines()}


def test_a_session_against_its_baseline(gpuperf: Callable, stored: object) -> None:
    code, out, err = gpuperf("compare", "main@H200", "latest")
    assert (code, err) == (1, "")
    assert out.startswith("20261201T100000Z-fedcba09-ef34ab against main@NVIDIA-H200 (NVIDIA H200)\n")
    assert _verdicts(out) == {
        "test_gelu[triton]": "regressed",
        "test_gelu[torch]": "unchanged",
        "test_step": "new",
        "test_softmax[256]": "missing",
    }
    assert "Since the baseline: driver was 580.65.06, now 580.82.07." in out
    assert "3 measured + 1 missing = 3 in the baseline + 1 new" in out
    assert f"\n\n{SLOW}\nslower by 5.9 % [" in out


def test_a_baseline_against_itself_is_fine(gpuperf: Callable, stored: object) -> None:
    code, out, _ = gpuperf("compare", "main@H200", "main@NVIDIA-H200")
    assert code == 0
    assert set(_verdicts(out).values()) == {"unchanged"}


def test_the_verdict_is_that_of_decide(gpuperf: Callable, stored: Storage) -> None:
    a, b = find_source("main@H200", None), find_source("latest", None)
    (outcome,) = compare_sources(a, b, {}, "triton").outcomes
    (before,) = [entry for entry in a.entries.values() if entry.benchmark == outcome.benchmark]
    (now,) = [entry for entry in b.entries.values() if entry.benchmark == outcome.benchmark]
    assert outcome.decision == decide(before.runs, now.runs, Policy(min_effect=0.02, gated=1))


def test_the_session_s_own_levels_hold_unless_others_are_given(stored: object) -> None:
    a, b = find_source("main@H200", None), find_source("latest", None)

    def effects(levels: dict[str, float]) -> set[float]:
        return {o.policy.min_effect for o in compare_sources(a, b, levels).outcomes if o.policy}

    assert effects({}) == {0.02}
    assert effects({"min_effect": 0.1}) == {0.1}


def test_a_shift_of_the_whole_suite_is_told(gpuperf: Callable, storage: Storage, make_entry: Callable) -> None:
    names = [f"perf/test_many.py::test_op[{i}]" for i in range(25)]
    _save(storage, "before", *(make_entry(name) for name in names))
    _save(storage, "after", *(make_entry(name, 50.3, 8, seed="after") for name in names))
    code, out, _ = gpuperf("compare", "before", "after")
    assert code == 0
    assert "Session shift: the suite as a whole is 0.6 % slower; taken out of every comparison." in out
    # A pattern chooses what is shown, not what the shift is taken from.
    assert (
        "Session shift: the suite as a whole is 0.6 % slower" in gpuperf("compare", "before", "after", "-k", "[7]").out
    )


def test_a_larger_effect_may_be_allowed(gpuperf: Callable, stored: object) -> None:
    code, out, _ = gpuperf("compare", "main@H200", "latest", "--min-effect", "10%", "--detectable", "0.2")
    assert code == 0
    assert _verdicts(out)["test_gelu[triton]"] == "unchanged"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--fail-on", "missing", "-k", "softmax"], 1),
        (["--fail-on", "missing", "-k", "gelu"], 0),
        (["--fail-on", "new,missing", "-k", "step"], 1),
        (["-k", "step"], 0),
        (["--strict", "-k", "step"], 1),
        (["--strict", "-k", "torch"], 0),
        (["-k", "triton"], 1),
    ],
)
def test_what_fails_is_a_choice(gpuperf: Callable, stored: object, options: list[str], code: int) -> None:
    assert gpuperf("compare", "main@H200", "latest", *options).code == code


def test_other_machines_are_incomparable(gpuperf: Callable, stored: object) -> None:
    code, out, _ = gpuperf("compare", "main@H200", "main@EPYC")
    assert code == 0
    assert set(_verdicts(out).values()) == {"incomparable"}
    assert "measured on AMD EPYC 9654, the baseline on NVIDIA H200" in " ".join(out.split())
    assert "Since the baseline" not in out
    assert gpuperf("compare", "main@H200", "main@EPYC", "--strict").code == 1


def test_another_timer_is_incomparable(gpuperf: Callable, stored: Storage, make_entry: Callable) -> None:
    _save(stored, "graphs", make_entry(SLOW, timer="graph"))
    code, out, _ = gpuperf("compare", "main@H200", "graphs", "-k", "triton")
    assert code == 0
    assert "(timer: events in the baseline, now graph)" in " ".join(out.split())


def test_few_runs_are_inconclusive(gpuperf: Callable, storage: Storage, make_entry: Callable) -> None:
    _save(storage, "few", make_entry(SLOW, 50.0, 3))
    _save(storage, "more", make_entry(SLOW, 60.0, 10))
    code, out, _ = gpuperf("compare", "few", "more")
    assert code == 0
    assert _verdicts(out) == {"test_gelu[triton]": "inconclusive"}
    assert "inconclusive: test_gelu[triton]: the baseline has only 3 runs" in out


def test_files_compare_too(gpuperf: Callable, stored: object, folder: Path) -> None:
    baseline = folder / ".gpuperf/baselines/NVIDIA-H200/main.json"
    (session,) = (folder / ".gpuperf/sessions/NVIDIA-H200").iterdir()
    assert gpuperf("compare", str(baseline), str(session)).code == 1
    assert gpuperf("compare", str(session), str(session)).code == 0


def test_json_is_a_session_record(gpuperf: Callable, stored: object, folder: Path) -> None:
    code, out, _ = gpuperf("compare", "main@H200", "latest", "--json", "out.json")
    assert code == 1
    assert "regressed" in out
    record = decode_session((folder / "out.json").read_bytes(), "out.json")
    assert [outcome.decision.verdict for outcome in record.outcomes] == ["regressed", "unchanged", "new", "missing"]
    assert record.info.command == "gpuperf compare main@NVIDIA-H200 20261201T100000Z-fedcba09-ef34ab"
    assert gpuperf("show", "out.json").code == 0


def test_json_on_standard_output_is_all_there_is(gpuperf: Callable, stored: object) -> None:
    code, out, _ = gpuperf("compare", "main@H200", "latest", "--json", "-")
    assert code == 1
    assert json.loads(out)["accounting"]["missing"] == 1


def test_json_that_cannot_be_written(gpuperf: Callable, stored: object) -> None:
    code, _, err = gpuperf("compare", "main@H200", "latest", "--json", "no/such/folder/out.json")
    assert code == 2
    assert "--json no/such/folder/out.json: cannot be written (No such file or directory)" in err


def test_table_options(gpuperf: Callable, stored: object) -> None:
    options = ["--sort", "name", "--group-by", "file", "--columns", "runs,verdict"]
    out = gpuperf("compare", "main@H200", "latest", *options).out
    lines = [line.split() for line in out.splitlines()[2:11]]
    assert lines[0] == ["name", "runs", "verdict"]
    assert lines[2:] == [
        ["perf/test_gelu.py:"],
        ["test_gelu[torch]", "10", "+", "1", "unchanged"],
        ["test_gelu[triton]", "10", "+", "8", "regressed"],
        ["perf/test_softmax.py:"],
        ["test_softmax[256]", "10", "+", "0", "missing"],
        ["perf/test_step.py:"],
        ["test_step", "1", "new"],
    ]


def test_nothing_to_compare(gpuperf: Callable, stored: object) -> None:
    code, _, err = gpuperf("compare", "main@H200", "latest", "-k", "nothing")
    assert code == 2
    assert "neither main@NVIDIA-H200 nor 20261201T100000Z-fedcba09-ef34ab holds a benchmark that matches" in err


def test_an_empty_side(gpuperf: Callable, stored: Storage) -> None:
    _save(stored, "empty")
    code, _, err = gpuperf("compare", "main@H200", "empty")
    assert code == 2
    assert "empty@NVIDIA-H200 is empty" in err
