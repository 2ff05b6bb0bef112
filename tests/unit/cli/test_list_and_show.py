"""`gpuperf list`, `gpuperf show`, and what their arguments stand for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.schema import SessionInfo
from pytest_gpuperf.store.storage import Storage


def test_golden_text_of_list(gpuperf: Callable, stored: object) -> None:
    expected = """\
AMD-EPYC-9654
  baseline  benchmarks  runs  sessions       first        last
  ------------------------------------------------------------
  main               3    10         1  2026-11-29  2026-11-29

NVIDIA-H200
  baseline  benchmarks  runs  sessions       first        last
  ------------------------------------------------------------
  main               3    10         1  2026-11-30  2026-11-30
  session                           benchmarks  verdicts
  ------------------------------------------------------------------------------------
  20261201T100000Z-fedcba09-ef34ab           4  1 regressed, 1 unchanged, 1 new, 1 missing
"""
    code, out, err = gpuperf("list")
    assert (code, err) == (0, "")
    assert _without_rules(out) == _without_rules(expected)


def _without_rules(text: str) -> list[str]:
    return [line for line in text.splitlines() if set(line.strip()) != {"-"}]


def test_an_empty_storage(gpuperf: Callable, storage: Storage, folder: Path) -> None:
    code, out, _ = gpuperf("list")
    assert (code, out) == (0, f"nothing is stored in {folder}/.gpuperf\n")


def test_a_damaged_file_does_not_hide_the_others(gpuperf: Callable, stored: object, folder: Path) -> None:
    damaged = folder / ".gpuperf/baselines/NVIDIA-H200/broken.json"
    damaged.write_text('{"format": "pytest-gpu')
    code, out, err = gpuperf("list")
    assert code == 2
    assert "AMD-EPYC-9654" in out
    assert "ef34ab" in out
    assert f"{damaged}: is cut off" in err


def test_earlier_sessions_are_counted(gpuperf: Callable, stored: object, folder: Path) -> None:
    sessions = folder / ".gpuperf/sessions/NVIDIA-H200"
    (only,) = sessions.iterdir()
    (sessions / "20251201T100000Z-older.json").write_bytes(only.read_bytes())
    assert "  (1 earlier; --last 0 lists all)" in gpuperf("list", "--last", "1").out.splitlines()
    assert "earlier" not in gpuperf("list", "--last", "0").out


def test_show_a_baseline(gpuperf: Callable, stored: object) -> None:
    code, out, _ = gpuperf("show", "main@H200")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == "main@NVIDIA-H200 (NVIDIA H200)"
    assert lines[1] == (
        "session ab12cd of 2026-11-30T10:00:00Z, commit 1234567890ab, node7, driver 580.65.06, torch 2.11.0"
    )
    assert lines[3].split() == ["name", "mean", "between", "runs", "runs", "clock", "memory", "timer"]
    assert [line.split()[0] for line in lines[5:]] == ["test_gelu[torch]", "test_gelu[triton]", "test_softmax[256]"]
    assert lines[5].endswith("1.750 GHz  64.0 MiB  events, cold")


def test_show_runs(gpuperf: Callable, stored: object) -> None:
    out = gpuperf("show", "main@H200", "--runs", "-k", "softmax").out
    runs = [line for line in out.splitlines() if line.startswith("ab12cd ")]
    assert [int(line.split()[1]) for line in runs] == list(range(1, 11))
    assert "perf/test_softmax.py::test_softmax[256]" in out
    assert "gelu" not in out


@pytest.mark.parametrize("session", ["ef34ab", "latest", "20261201", "latest@h200", "ef34@NVIDIA H200"])
def test_show_a_session(gpuperf: Callable, stored: object, session: str) -> None:
    code, out, _ = gpuperf("show", session)
    assert code == 0
    assert "1 regressed, 1 unchanged, 1 new, 1 missing" in out
    assert "3 measured + 1 missing = 3 in the baseline + 1 new" in out
    assert "slower by 6.0 % [5.0, 7.0]" in out


def test_show_a_file(gpuperf: Callable, stored: object, folder: Path) -> None:
    baseline = folder / ".gpuperf/baselines/NVIDIA-H200/main.json"
    assert gpuperf("show", str(baseline)).out.splitlines()[0] == f"{baseline} (NVIDIA H200)"
    (session,) = (folder / ".gpuperf/sessions/NVIDIA-H200").iterdir()
    assert "1 regressed" in gpuperf("show", str(session)).out


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("GELU", 2),
        ("gelu[tri", 1),
        ("*gelu[*", 2),
        ("perf/*256]", 1),
        ("*test_gelu[t?????]", 1),
        ("perf/test_gelu.py::test_gelu[torch]", 1),
    ],
)
def test_patterns(gpuperf: Callable, stored: object, pattern: str, shown: int) -> None:
    assert len(gpuperf("show", "main@H200", "-k", pattern).out.splitlines()) == 5 + shown


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("main", "'main' is stored for several machines: give one of main@AMD-EPYC-9654, main@NVIDIA-H200"),
        ("main@a100", "machine 'a100' has nothing stored: there is AMD-EPYC-9654, NVIDIA-H200"),
        ("main@a", "machine 'a' is not unique: there is AMD-EPYC-9654, NVIDIA-H200"),
        ("nightly", "there is no baseline or session 'nightly' (baselines: main@AMD-EPYC-9654, main@NVIDIA-H200"),
        ("no/such/file", "no/such/file: there is no such file"),
        ("absent.json", "absent.json: there is no such file"),
        ("latest@epyc", "machine 'epyc' has nothing stored: there is NVIDIA-H200"),
    ],
)
def test_what_stands_for_nothing(gpuperf: Callable, stored: object, source: str, message: str) -> None:
    code, out, err = gpuperf("show", source)
    assert (code, out) == (2, "")
    assert message in err


def test_a_part_of_several_sessions_names(gpuperf: Callable, stored: object, folder: Path) -> None:
    sessions = folder / ".gpuperf/sessions/NVIDIA-H200"
    (only,) = sessions.iterdir()
    (sessions / "20261201T110000Z-other.json").write_bytes(only.read_bytes())
    code, _, err = gpuperf("show", "20261201")
    assert code == 2
    assert (
        "'20261201' is part of several sessions' names: 20261201T100000Z-fedcba09-ef34ab, 20261201T110000Z-other" in err
    )
    assert gpuperf("show", "latest").out.startswith("20261201T110000Z-other ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b'{"format": "pytest-gpuperf baseline", "sch', "is cut off"),
        (b'{"benchmarks": []}', "is neither a baseline nor a session of pytest-gpuperf"),
        (b"[1, 2]", "is neither a baseline nor a session of pytest-gpuperf"),
        (b'{"format": "pytest-gpuperf session", "schema": 999}', "was written at schema 999"),
        (b"\xff\xfe", "is not strict JSON"),
    ],
)
def test_files_that_cannot_be_used(gpuperf: Callable, folder: Path, content: bytes, message: str) -> None:
    (folder / "odd.json").write_bytes(content)
    code, out, err = gpuperf("show", "odd.json")
    assert (code, out) == (2, "")
    assert err.startswith("gpuperf: error: odd.json: ")
    assert message in err


def test_nothing_matches(gpuperf: Callable, stored: object) -> None:
    code, _, err = gpuperf("show", "main@H200", "-k", "nothing")
    assert code == 2
    assert "main@NVIDIA-H200 has no benchmark that matches -k 'nothing'" in err


def test_what_shapes_a_timer_is_told_once_below_the_table(
    gpuperf: Callable, stored: Storage, make_entry: Callable
) -> None:
    timers = ("events, queued, flush 120 MiB write", "events, queued, flush 120 MiB write", "graph")
    entries = [make_entry(f"test_a.py::test_a[{n}]", timer=timer) for n, timer in enumerate(timers)]
    info = SessionInfo(id="timers", started="2026-12-02T10:00:00Z", machine=Machine(model="NVIDIA H200", kind="cuda"))
    place = (stored, info.machine.key, "timers")
    baselines.update(*place, lambda old: baselines.replace_entries(old, entries, info))
    lines = gpuperf("show", "timers@H200").out.splitlines()
    assert sum("flush 120 MiB" in line for line in lines) == 1
    assert lines[-1] == "timer: events, queued, flush 120 MiB write, cold"
    assert [line.rstrip().rpartition("  ")[2] for line in lines[-5:-2]] == [
        "events, cold",
        "events, cold",
        "graph, cold",
    ]
