"""`gpuperf accept`, `rename`, `prune` and `history`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pytest_gpuperf.checks.finding import CheckFinding
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.store import baselines, sessions
from pytest_gpuperf.store.schema import Baseline, Entry, SessionInfo
from pytest_gpuperf.store.storage import Storage

KEY = "NVIDIA-H200"
BEYOND = CheckFinding(check="max_kernels", seen="5 kernels", why="3 are allowed", remedy="fuse", is_limit=True)
SLOW, STEADY, GONE, ADDED = (
    "perf/test_gelu.py::test_gelu[triton]",
    "perf/test_gelu.py::test_gelu[torch]",
    "perf/test_softmax.py::test_softmax[256]",
    "perf/test_step.py::test_step",
)


def _load(storage: Storage, machine: str = KEY, name: str = "main") -> Baseline:
    baseline = baselines.load(storage, machine, name)
    assert baseline is not None
    return baseline


def _entry(baseline: Baseline, node_id: str) -> Entry:
    return baseline.entries[BenchmarkId.of(node_id).key]


def _labels(baseline: Baseline) -> set[str]:
    return {entry.benchmark.label for entry in baseline.entries.values()}


class TestAccept:
    def test_a_confirmed_slowdown_becomes_the_baseline(self, gpuperf: Callable, stored: Storage) -> None:
        assert gpuperf("compare", "main@H200", "latest", "-k", "triton").code == 1
        code, out, _ = gpuperf("accept", "latest")
        assert code == 0
        assert out.startswith("main@NVIDIA-H200: replaced 1 entry: test_gelu[triton]\n")
        assert gpuperf("compare", "main@H200", "latest", "-k", "triton").code == 0
        assert len(_entry(_load(stored), SLOW).runs) == 8

    def test_one_run_replaces_nothing(self, gpuperf: Callable, stored: Storage) -> None:
        before = _load(stored)
        code, out, err = gpuperf("accept", "latest", "-k", "torch")
        assert (code, out) == (2, "")
        assert "nothing to accept: test_gelu[torch]: fewer than the 5 runs that a baseline needs to gate" in err
        assert _load(stored) == before

    def test_extend_adds_runs_of_what_did_not_change(self, gpuperf: Callable, stored: Storage) -> None:
        code, out, _ = gpuperf("accept", "latest", "--extend")
        assert code == 0
        assert "extended 2 entries: test_gelu[torch], test_step" in out
        assert "left as it was: test_gelu[triton]: its time changed" in out
        baseline = _load(stored)
        assert [len(_entry(baseline, node_id).runs) for node_id in (SLOW, STEADY, GONE, ADDED)] == [10, 11, 10, 1]
        assert {run.session for run in _entry(baseline, STEADY).runs} == {"ab12cd", "ef34ab"}

    def test_the_same_runs_are_not_added_twice(self, gpuperf: Callable, stored: Storage) -> None:
        gpuperf("accept", "latest", "--extend")
        before = _load(stored)
        code, _, err = gpuperf("accept", "latest", "--extend", "-k", "torch")
        assert code == 2
        assert "the baseline has this session's runs already" in err
        assert _load(stored) == before

    @pytest.mark.parametrize(
        ("spoiled", "reason"),
        [
            ({"hazards": ("a debugger is attached",)}, "measured while a debugger is attached"),
            ({"checks": (BEYOND,)}, "did not keep to its limits"),
        ],
        ids=["debugger", "limit"],
    )
    def test_what_a_session_would_not_store_is_not_accepted(
        self, gpuperf: Callable, stored: Storage, spoiled: dict, reason: str
    ) -> None:
        (name,) = sessions.names(stored, KEY)
        record = sessions.load(stored, KEY, name)
        assert record is not None
        outcomes = [msgspec.structs.replace(o, **spoiled) for o in record.outcomes]
        info = msgspec.structs.replace(record.info, id="spoiled", started="2026-12-02T00:00:00Z")
        sessions.save(stored, KEY, msgspec.structs.replace(record, info=info, outcomes=tuple(outcomes)))
        code, _, err = gpuperf("accept", "latest")
        assert code == 2
        assert reason in err

    def test_another_name(self, gpuperf: Callable, stored: Storage) -> None:
        assert gpuperf("accept", "ef34ab", "--baseline", "release").code == 0
        assert _labels(_load(stored, name="release")) == {SLOW}
        assert _labels(_load(stored)) == {SLOW, STEADY, GONE}

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nope"], "there is no baseline or session 'nope'"),
            (["latest", "-k", "nothing"], "measured no benchmark that matches -k 'nothing'"),
            (["latest", "-k", "softmax"], "measured no benchmark that matches -k 'softmax'"),
            (["latest", "--baseline", "a/b"], "cannot be a file name everywhere"),
        ],
    )
    def test_errors(self, gpuperf: Callable, stored: object, arguments: list[str], message: str) -> None:
        code, out, err = gpuperf("accept", *arguments)
        assert (code, out) == (2, "")
        assert message in err


class TestRename:
    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (GONE, "perf/test_softmax.py::test_wide[256]", {"perf/test_softmax.py::test_wide[256]", SLOW, STEADY}),
            (
                "perf/test_gelu.py::test_gelu",
                "perf/test_gelu.py::test_act",
                {"perf/test_gelu.py::test_act[triton]", "perf/test_gelu.py::test_act[torch]", GONE},
            ),
            (
                "perf/test_gelu.py",
                "perf/test_act.py",
                {"perf/test_act.py::test_gelu[triton]", "perf/test_act.py::test_gelu[torch]", GONE},
            ),
            ("perf/", "speed/", {label.replace("perf/", "speed/") for label in (SLOW, STEADY, GONE)}),
        ],
        ids=["benchmark", "test", "file", "folder"],
    )
    def test_what_follows_the_place_stays(
        self, gpuperf: Callable, stored: Storage, old: str, new: str, expected: set[str]
    ) -> None:
        code, out, _ = gpuperf("rename", old, new)
        assert code == 0
        assert "main@NVIDIA-H200:" in out
        assert _labels(_load(stored)) == _labels(_load(stored, "AMD-EPYC-9654")) == expected

    def test_runs_go_along(self, gpuperf: Callable, stored: Storage) -> None:
        runs = _entry(_load(stored), GONE).runs
        gpuperf("rename", GONE, "perf/test_softmax.py::test_new", "--baseline", "main@H200")
        assert _entry(_load(stored), "perf/test_softmax.py::test_new").runs == runs
        assert GONE in _labels(_load(stored, "AMD-EPYC-9654"))

    def test_a_name_that_only_begins_alike_is_another(self, gpuperf: Callable, stored: Storage) -> None:
        code, _, err = gpuperf("rename", "perf/test_gelu.py::test_ge", "perf/x.py::x")
        assert code == 2
        assert "no entry at 'perf/test_gelu.py::test_ge'" in err
        assert SLOW in err

    def test_a_name_that_is_taken_changes_nothing(self, gpuperf: Callable, stored: Storage) -> None:
        before = _load(stored), _load(stored, "AMD-EPYC-9654")
        code, _, err = gpuperf("rename", SLOW, STEADY)
        assert code == 2
        assert f"the baseline already has an entry for {STEADY}" in err
        assert (_load(stored), _load(stored, "AMD-EPYC-9654")) == before

    @pytest.mark.parametrize(("old", "new"), [(SLOW, ""), (SLOW, "x"), ("perf", ""), ("perf", "/")])
    def test_what_is_no_id_changes_nothing(self, gpuperf: Callable, stored: Storage, old: str, new: str) -> None:
        before = _load(stored)
        code, _, err = gpuperf("rename", old, new)
        assert code == 2
        assert "is no id of a test" in err
        assert _load(stored) == before

    def test_one_of_several_benchmarks_of_a_test(
        self, gpuperf: Callable, storage: Storage, make_entry: Callable
    ) -> None:
        info = SessionInfo(id="s", started="2026-12-02T10:00:00Z", machine=Machine(model="NVIDIA H200", kind="cuda"))
        entries = [
            Entry(benchmark=BenchmarkId.of("t.py::test_a", name), identity=entry.identity, runs=entry.runs)
            for name, entry in (("forward", make_entry("f")), ("backward", make_entry("b")))
        ]
        baselines.update(storage, KEY, "main", lambda old: baselines.replace_entries(old, entries, info))
        assert gpuperf("rename", "t.py::test_a (forward)", "t.py::test_a (fwd)").code == 0
        assert gpuperf("rename", "t.py::test_a", "t.py::test_b").code == 0
        assert _labels(_load(storage)) == {"t.py::test_b (fwd)", "t.py::test_b (backward)"}
        code, _, err = gpuperf("rename", "t.py::test_b (fwd)", "t.py::test_c")
        assert code == 2
        assert "write NEW as 'test id (name)' too" in err


class TestPrune:
    def test_entries_go(self, gpuperf: Callable, stored: Storage) -> None:
        code, out, _ = gpuperf("prune", "perf/test_gelu.py", "--baseline", "main@H200")
        assert code == 0
        assert out == f"main@NVIDIA-H200: removed 2 entries of 3\n  {STEADY}\n  {SLOW}\n"
        assert _labels(_load(stored)) == {GONE}
        assert len(_labels(_load(stored, "AMD-EPYC-9654"))) == 3

    def test_what_a_session_found_missing_goes(self, gpuperf: Callable, stored: Storage) -> None:
        assert gpuperf("prune", "--missing-in", "latest").code == 0
        assert _labels(_load(stored)) == _labels(_load(stored, "AMD-EPYC-9654")) == {SLOW, STEADY}

    def test_a_dry_run_leaves_all(self, gpuperf: Callable, stored: Storage) -> None:
        before = _load(stored)
        code, out, _ = gpuperf("prune", GONE, "--dry-run")
        assert code == 0
        assert "main@NVIDIA-H200: would remove 1 entry of 3" in out
        assert _load(stored) == before

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "give the ids of what to remove, or --missing-in SESSION, or --keep-sessions N"),
            (
                [GONE, "--missing-in", "latest"],
                "give the ids of what to remove, or --missing-in SESSION, or --keep-sessions N",
            ),
            ([GONE, "--keep-sessions", "1"], "or --keep-sessions N"),
            ([GONE, "perf/nope.py"], "no entry at 'perf/nope.py'"),
            ([GONE, "--baseline", "old"], "there is no baseline 'old': there is main@AMD-EPYC-9654, main@NVIDIA-H200"),
            ([GONE, "--baseline", "main@a100"], "machine 'a100' has nothing stored"),
            (["--missing-in", "nope"], "there is no baseline or session 'nope'"),
        ],
    )
    def test_errors_remove_nothing(
        self, gpuperf: Callable, stored: Storage, arguments: list[str], message: str
    ) -> None:
        before = _load(stored)
        code, out, err = gpuperf("prune", *arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert _load(stored) == before

    def test_old_session_records_go(self, gpuperf: Callable, stored: Storage, folder: Path) -> None:
        records = folder / ".gpuperf/sessions/NVIDIA-H200"
        (newest,) = records.glob("*.json")
        for year in (2023, 2024):
            (records / f"{year}1201T100000Z-older-0.json").write_bytes(newest.read_bytes())
        before = _load(stored)
        assert gpuperf("prune", "--keep-sessions", "2", "--dry-run").out.splitlines() == [
            "NVIDIA-H200: would remove 1 session record of 3"
        ]
        assert gpuperf("prune", "--keep-sessions", "2").out == "NVIDIA-H200: removed 1 session record of 3\n"
        assert [path.name for path in sorted(records.glob("*.json"))] == ["20241201T100000Z-older-0.json", newest.name]
        assert gpuperf("prune", "--keep-sessions", "0").code == 0
        assert list(records.glob("*.json")) == []
        assert _load(stored) == before

    @pytest.mark.parametrize("count", ["-1", "many"])
    def test_a_number_of_sessions_is_a_whole_number(self, gpuperf: Callable, stored: Storage, count: str) -> None:
        code, _, err = gpuperf("prune", f"--keep-sessions={count}")
        assert code == 2
        assert f"--keep-sessions: must be a whole number of at least 0; got '{count}'" in err

    def test_a_damaged_baseline_is_left_alone(self, gpuperf: Callable, stored: Storage, folder: Path) -> None:
        damaged = folder / ".gpuperf/baselines/NVIDIA-H200/main.json"
        damaged.write_bytes(damaged.read_bytes()[:-40])
        content = damaged.read_bytes()
        code, _, err = gpuperf("prune", GONE)
        assert code == 2
        assert f"{damaged}: is cut off" in err
        assert damaged.read_bytes() == content
        assert GONE in _labels(_load(stored, "AMD-EPYC-9654"))


class TestHistory:
    def test_oldest_first(self, gpuperf: Callable, stored: object, folder: Path) -> None:
        sessions = folder / ".gpuperf/sessions/NVIDIA-H200"
        (only,) = sessions.iterdir()
        older = only.read_text().replace("2026-12-01T10:00:00Z", "2026-11-30T12:00:00Z").replace("fedcba09", "0badcafe")
        (sessions / "20261130T120000Z-0badcafe.json").write_text(older)
        code, out, _ = gpuperf("history", "-k", "triton")
        lines = out.splitlines()
        assert code == 0
        assert lines[0] == f"{SLOW} on NVIDIA-H200"
        assert [line.split()[2] for line in lines[3:]] == ["0badcafe", "fedcba09"]
        assert lines[4].startswith("2026-12-01 10:00:00")
        assert lines[4].endswith("regressed")
        assert len(gpuperf("history", "-k", "triton", "--last", "1").out.splitlines()) == 4

    def test_all_benchmarks(self, gpuperf: Callable, stored: object) -> None:
        out = gpuperf("history").out
        assert [line for line in out.splitlines() if line.endswith(" on NVIDIA-H200")] == [
            f"{label} on NVIDIA-H200" for label in (STEADY, SLOW, GONE, ADDED)
        ]

    def test_nothing_to_show(self, gpuperf: Callable, storage: object) -> None:
        code, out, err = gpuperf("history", "-k", "x")
        assert (code, out) == (2, "")
        assert "holds no session of a benchmark that matches -k 'x'" in err

    def test_a_damaged_session_does_not_hide_the_others(self, gpuperf: Callable, stored: object, folder: Path) -> None:
        (folder / ".gpuperf/sessions/NVIDIA-H200/20261130T000000Z-x.json").write_text("")
        code, out, err = gpuperf("history")
        assert code == 2
        assert SLOW in out
        assert "is empty" in err
