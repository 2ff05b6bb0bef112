from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.errors import IncomparableRunsError, InvalidNameError
from pytest_gpuperf.store.schema import Baseline, Entry, SessionInfo
from pytest_gpuperf.store.storage import Storage

MakeEntry = Callable[..., Entry]
MakeSession = Callable[..., SessionInfo]


def _key(name: str) -> str:
    return BenchmarkId.of(f"tests/test_{name}.py::test_{name}").key


def test_replacing_keeps_entries_that_did_not_run(
    baseline: Baseline, make_entry: MakeEntry, make_session: MakeSession
) -> None:
    new = baselines.replace_entries(baseline, [make_entry("a", runs=3), make_entry("c")], make_session("later"))
    assert set(new.entries) == {_key("a"), _key("b"), _key("c")}
    assert new.entries[_key("b")] == baseline.entries[_key("b")]
    assert [run.session for run in new.entries[_key("a")].runs] == ["later"] * 3
    assert set(new.sessions) == {"5e551011", "later"}


def test_sessions_without_runs_are_dropped(
    baseline: Baseline, make_entry: MakeEntry, make_session: MakeSession
) -> None:
    new = baselines.replace_entries(baseline, [make_entry("a"), make_entry("b")], make_session("later"))
    assert set(new.sessions) == {"later"}


def test_runs_keep_the_session_they_name(make_entry: MakeEntry, make_session: MakeSession, baseline: Baseline) -> None:
    old_run = baseline.entries[_key("a")].runs[0]
    entry = msgspec.structs.replace(make_entry("a", runs=1), runs=(old_run, make_entry("a").runs[0]))
    new = baselines.replace_entries(baseline, [entry], make_session("later"))
    assert [run.session for run in new.entries[_key("a")].runs] == ["5e551011", "later"]


def test_extending_appends_runs_and_keeps_where_they_come_from(
    baseline: Baseline, make_entry: MakeEntry, make_session: MakeSession
) -> None:
    new = baselines.extend_entries(baseline, [make_entry("a", runs=3), make_entry("c", runs=1)], make_session("later"))
    assert [run.session for run in new.entries[_key("a")].runs] == ["5e551011"] * 2 + ["later"] * 3
    assert len(new.entries[_key("c")].runs) == 1


def test_extending_nothing_begins_a_baseline(make_entry: MakeEntry, session: SessionInfo) -> None:
    new = baselines.extend_entries(None, [make_entry("a")], session)
    assert (new.machine_model, set(new.entries)) == ("NVIDIA H200", {_key("a")})


def test_extending_with_runs_of_another_timer_is_refused_with_the_reason(
    baseline: Baseline, make_entry: MakeEntry, session: SessionInfo
) -> None:
    with pytest.raises(IncomparableRunsError, match="timer: events in the baseline, now wall") as caught:
        baselines.extend_entries(baseline, [make_entry("a", timer="wall"), make_entry("b")], session)
    assert set(caught.value.reasons) == {_key("a")}


def test_removing(baseline: Baseline) -> None:
    assert set(baselines.remove_entries(baseline, [_key("a")]).entries) == {_key("b")}
    emptied = baselines.remove_entries(baseline, [_key("a"), _key("b")])
    assert (emptied.entries, emptied.sessions) == ({}, {})
    with pytest.raises(KeyError, match="unheard-of"):
        baselines.remove_entries(baseline, ["unheard-of"])


def test_renaming(baseline: Baseline) -> None:
    target = BenchmarkId.of("tests/test_new.py::test_new")
    renamed = baselines.rename_entry(baseline, _key("a"), target)
    assert set(renamed.entries) == {target.key, _key("b")}
    assert renamed.entries[target.key].benchmark == target
    assert renamed.entries[target.key].runs == baseline.entries[_key("a")].runs


def test_renaming_never_overwrites(baseline: Baseline) -> None:
    with pytest.raises(ValueError, match=r"already has an entry for tests/test_b\.py::test_b"):
        baselines.rename_entry(baseline, _key("a"), baseline.entries[_key("b")].benchmark)
    assert baselines.rename_entry(baseline, _key("a"), baseline.entries[_key("a")].benchmark) == baseline


def test_update_gives_the_change_what_is_stored(storage: Storage, machine_key: str, baseline: Baseline) -> None:
    seen: list[Baseline | None] = []

    def change(old: Baseline | None) -> Baseline:
        seen.append(old)
        return baseline

    assert baselines.update(storage, machine_key, "main", change) == baseline
    assert baselines.update(storage, machine_key, "main", change) == baseline
    assert seen == [None, baseline]
    assert baselines.load(storage, machine_key, "main") == baseline


def test_a_change_that_fails_leaves_everything_as_it_was(
    storage: Storage, machine_key: str, baseline: Baseline
) -> None:
    baselines.update(storage, machine_key, "main", lambda _: baseline)
    file = Path(storage.describe(baselines.place_of(machine_key, "main")))
    before = file.read_bytes()

    def interrupted(_: Baseline | None) -> Baseline:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        baselines.update(storage, machine_key, "main", interrupted)
    assert file.read_bytes() == before
    assert [member.name for member in file.parent.iterdir()] == [file.name]


def test_what_is_listed(storage: Storage, machine_key: str, baseline: Baseline) -> None:
    assert baselines.machines(storage) == baselines.names(storage, machine_key) == ()
    for name in ("main", "v1.2"):
        baselines.update(storage, machine_key, name, lambda _: baseline)
    other = msgspec.structs.replace(baseline, machine_model="AMD EPYC 9654")
    baselines.update(storage, "AMD-EPYC-9654", "main", lambda _: other)
    (Path(storage.describe("baselines")) / machine_key / "notes.txt").write_text("not ours")
    assert baselines.names(storage, machine_key) == ("main", "v1.2")
    assert baselines.machines(storage) == baselines.machines_with(storage, "main") == ("AMD-EPYC-9654", machine_key)
    assert baselines.machines_with(storage, "v1.2") == (machine_key,)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "-x",
        ".hidden",
        "a/b",
        "a\\b",
        "a b",
        "naïve",
        "x" * 101,
        "a\n",
        "../../etc/passwd",
        "a\0b",
        "$(rm)",
        "\ud800",
    ],
)
def test_names_that_are_no_file_names_are_refused(storage: Storage, machine_key: str, name: str) -> None:
    with pytest.raises(InvalidNameError, match=r"baseline name .* cannot be a file name everywhere. Use 1 to 100"):
        baselines.load(storage, machine_key, name)
    with pytest.raises(InvalidNameError, match="machine key"):
        baselines.load(storage, name, "main")


@pytest.mark.parametrize("name", ["main", "v1.2-rc_3", "_", "x" * 100, "0"])
def test_plain_names_are_taken(storage: Storage, machine_key: str, baseline: Baseline, name: str) -> None:
    baselines.update(storage, machine_key, name, lambda _: baseline)
    assert baselines.names(storage, machine_key) == (name,)


_SAVER = """
    import sys
    from pathlib import Path
    from pytest_gpuperf.measure.plan import BenchmarkId
    from pytest_gpuperf.store import baselines, codec
    from pytest_gpuperf.store.storage import open_storage
    import msgspec

    location, template, who = sys.argv[1:]
    template = codec.decode_baseline(Path(template).read_bytes(), template)
    (session,) = template.sessions.values()
    entry = next(iter(template.entries.values()))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(12):
        renamed = msgspec.structs.replace(entry, benchmark=BenchmarkId.of(f"{who}-{number}"))
        baselines.update(
            open_storage(location), "NVIDIA-H200", "main",
            lambda old: baselines.replace_entries(old, [renamed], session),
        )
"""


def test_processes_that_save_at_once_lose_nothing(
    storage: Storage, machine_key: str, baseline: Baseline, tmp_path: Path
) -> None:
    baselines.update(storage, machine_key, "template", lambda _: baseline)
    template = storage.describe(baselines.place_of(machine_key, "template"))
    savers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_SAVER), storage.describe(""), template, who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in ("x", "y", "z")
    ]
    try:
        for saver in savers:
            assert saver.stdout is not None
            assert saver.stdout.readline() == "ready\n"
        for saver in savers:  # all are past their imports: now they meet at the file
            assert saver.stdin is not None
            saver.stdin.write("go\n")
            saver.stdin.flush()
        for saver in savers:
            saver.communicate(timeout=60)
            assert saver.returncode == 0
    finally:
        for saver in savers:
            saver.kill()
            saver.communicate()
    stored = baselines.load(storage, machine_key, "main")
    assert stored is not None
    assert set(stored.entries) == {f"{who}-{number}" for who in "xyz" for number in range(12)}
    assert sorted(m.name for m in Path(template).parent.iterdir()) == ["main.json", "template.json"]
