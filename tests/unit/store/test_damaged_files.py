"""Every way a stored file can be wrong has its own error, names the file and the remedy, and leaves it as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_gpuperf.store import baselines, errors, schema, sessions
from pytest_gpuperf.store.codec import encode_baseline
from pytest_gpuperf.store.schema import Baseline, SessionRecord
from pytest_gpuperf.store.storage import Storage

KEY = "tests-test_a.py-test_a-"


@pytest.fixture
def file(storage: Storage, machine_key: str, baseline: Baseline) -> Path:
    """A good baseline, stored."""
    baselines.update(storage, machine_key, "main", lambda _: baseline)
    return Path(storage.describe(baselines.place_of(machine_key, "main")))


@pytest.fixture
def assert_refused(storage: Storage, machine_key: str, file: Path) -> Callable[..., None]:
    """Store `content` by hand, then expect `kind` from reading and from updating, and the file untouched."""

    def check(content: bytes, kind: type[errors.StoreError], match: str) -> None:
        file.write_bytes(content)
        for use in (
            lambda: baselines.load(storage, machine_key, "main"),
            lambda: baselines.update(storage, machine_key, "main", lambda old: old or pytest.fail("changed")),
        ):
            with pytest.raises(kind, match=match) as caught:
                use()
            assert type(caught.value) is kind
            assert str(caught.value).startswith(f"{file}: ")
            assert caught.value.remedy in str(caught.value)
        assert file.read_bytes() == content
        assert [member.name for member in file.parent.iterdir()] == [file.name]

    return check


def _entry_key(content: dict[str, Any]) -> str:
    return next(key for key in content["entries"] if key.startswith(KEY))


def _first_run(content: dict[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = content["entries"][_entry_key(content)]["runs"][0]
    return run


def test_absent_is_none(storage: Storage, machine_key: str) -> None:
    assert baselines.load(storage, machine_key, "main") is None
    assert not Path(storage.describe("")).exists()


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\0" * 512])
def test_empty(assert_refused: Callable[..., None], content: bytes) -> None:
    assert_refused(content, errors.EmptyFileError, "is empty .* Restore it")


@pytest.mark.parametrize("share", [0.001, 0.3, 0.5, 0.9, 0.999])
def test_truncated(assert_refused: Callable[..., None], file: Path, share: float) -> None:
    content = file.read_bytes().rstrip()
    assert_refused(content[: max(1, int(len(content) * share))], errors.TruncatedFileError, "is cut off")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (b'"trials":20', b'"trials":', "is not JSON .*line 1.*column"),
        (b'"trials":20', b'"trials":NaN', "NaN is not a number of JSON"),
        (b'"mean_us":12.5', b'"mean_us":1e999', "1e999 is out of range"),
        (b'"trials":20', b'"trials":' + b"9" * 5000, "out of range"),
        (b'"trials":20', b'"trials":20,"trials":21', '"trials" is there twice'),
        (b'"host":"node1"', b'"host":"\xff"', "is not strict JSON .*utf-8"),
        (b'"trials":20', b'"trials":' + b"[" * 100_000 + b"]" * 100_000, "is not strict JSON|does not fit"),
    ],
)
def test_not_strict_json(assert_refused: Callable[..., None], file: Path, old: bytes, new: bytes, match: str) -> None:
    assert_refused(file.read_bytes().replace(old, new, 1), errors.BrokenFileError, match)


@pytest.mark.parametrize("style", ["merge", "diff3", "markers with nothing between"])
@pytest.mark.parametrize("line", [1, 3, 6, -1])
def test_an_unresolved_merge_conflict(assert_refused: Callable[..., None], file: Path, style: str, line: int) -> None:
    """Two branches extend the same baseline: told as what it is, wherever it lies, with a way to keep both."""
    lines = file.read_text().splitlines(keepends=True)
    at = range(len(lines))[line]
    ours, base = lines[at : at + 1], ["||||||| 0123456\n"] if style == "diff3" else []
    between = [] if "nothing" in style else ours
    lines[at : at + 1] = ["<<<<<<< HEAD\n", *between, *base, "=======\n", *between, ">>>>>>> other\n"]
    told = rf"merge conflict .*\(line {at + 1}\)\. Take one side .*--extend"
    assert_refused("".join(lines).encode(), errors.BrokenFileError, told)


def test_the_same_entry_twice(assert_refused: Callable[..., None], file: Path) -> None:
    text = file.read_text()
    key = _entry_key(json.loads(text))
    entry = json.dumps(json.loads(text)["entries"][key])
    doubled = text.replace('"entries": {', f'"entries": {{"{key}": {entry},', 1)
    assert_refused(doubled.encode(), errors.BrokenFileError, f'"{key}" is there twice')


def _set(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: _first_run(content).__setitem__(name, value)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_set("trials", "many"), rf'Expected `int`, got `str` - at `\$\.entries\["{KEY}\w+"\]\.runs\[0\]\.trials`'),
        (_set("mean_us", None), r"Expected `float`, got `null` - at .*\.runs\[0\]\.mean_us"),
        (_set("mean_uss", 1.0), r"unknown field `mean_uss` - at .*\.runs\[0\]"),
        (lambda content: _first_run(content).pop("mean_us"), r"missing required field `mean_us` - at .*\.runs\[0\]"),
        (_set("trials", 0), r"an impossible run .* at .*\.runs\[0\]"),
        (_set("sd_us", -1), r"an impossible run .* at .*\.runs\[0\]"),
        (_set("session", "nobody"), r"unknown sessions \(nobody\) at .*\.runs"),
        (_set("kernels", 3), r"kernels refers to 3, which is not in kernel_lists, at \$\.entries"),
        (_set("kernels", ["gelu"]), r"kernels refers to \['gelu'\]"),
        (_set("notes", 0), "notes refers to 0, which is not in note_lists"),
        (lambda content: content["entries"][_entry_key(content)].update(runs=[]), r"without runs, at .*\.runs"),
        (lambda content: content["entries"].update(other=content["entries"].pop(_entry_key(content))), 'at .*"other"'),
        (lambda content: content["entries"].update(other=3), r'Expected `object`.*\$\.entries\["other"\]'),
        (lambda content: content["sessions"].update(other=content["sessions"]["5e551011"]), "under another id"),
        (lambda content: content["sessions"]["5e551011"].pop("machine"), r'`\$\.sessions\["5e551011"\]`'),
        (lambda content: content.update(entries=[]), r"Expected `object`, got `array` - at `\$\.entries`"),
        (lambda content: content.update(note="mine"), "unknown field `note`"),
        (lambda content: content.update(schema="1"), r"no usable schema version at \$\.schema"),
        (lambda content: content.update(schema=True), r"no usable schema version at \$\.schema"),
        (lambda content: content.update(schema=0), r"no usable schema version at \$\.schema"),
        (lambda content: content.update(machine_model="NVIDIA A100"), r"machine model \"NVIDIA A100\" but lies in"),
    ],
)
def test_broken_by_hand_names_the_json_path(
    assert_refused: Callable[..., None], file: Path, change: Callable[[dict[str, Any]], object], match: str
) -> None:
    content = json.loads(file.read_text())
    change(content)
    assert_refused(json.dumps(content).encode(), errors.BrokenFileError, match)


@pytest.mark.parametrize(
    "content",
    [
        {"benchmarks": [], "machine_info": {}, "version": "5.3"},
        {"format": "something else", "schema": 1},
        [1, 2],
        "text",
        {},
    ],
)
def test_a_file_of_another_tool(assert_refused: Callable[..., None], content: object) -> None:
    # A bare JSON text without a closing brace cannot be told from a cut one, so every case here is complete JSON.
    assert_refused(json.dumps(content).encode(), errors.ForeignFileError, "is not a pytest-gpuperf baseline.*Move it")


def test_a_session_record_is_no_baseline(
    assert_refused: Callable[..., None], storage: Storage, machine_key: str, record: SessionRecord
) -> None:
    content = Path(sessions.save(storage, machine_key, record)).read_bytes()
    assert_refused(content, errors.ForeignFileError, "is not a pytest-gpuperf baseline")


def test_a_newer_schema_is_named_and_asks_for_an_upgrade(assert_refused: Callable[..., None], file: Path) -> None:
    content = file.read_bytes().replace(b'"schema": 1', b'"schema": 7', 1).replace(b'"trials"', b'"tries"')
    assert_refused(content, errors.NewerSchemaError, "schema 7, .* reads up to 1. Upgrade pytest-gpuperf$")


@pytest.fixture
def _schema_2_renamed_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    def upgrade(content: dict[str, Any]) -> dict[str, Any]:
        renamed = {key: value for key, value in content.items() if key != "model"}
        return renamed | {"machine_model": content["model"]}

    monkeypatch.setattr(schema, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(schema, "UPGRADES", {1: upgrade})


@pytest.mark.usefixtures("_schema_2_renamed_a_field")
def test_an_older_schema_is_upgraded_and_saved_as_todays(
    storage: Storage, machine_key: str, file: Path, baseline: Baseline
) -> None:
    old = file.read_bytes().replace(b'"schema": 2', b'"schema": 1').replace(b'"machine_model"', b'"model"')
    file.write_bytes(old)
    loaded = baselines.load(storage, machine_key, "main")
    assert loaded is not None
    assert loaded.entries == baseline.entries
    assert file.read_bytes() == old
    baselines.update(storage, machine_key, "main", lambda stored: stored or pytest.fail("absent"))
    assert file.read_bytes() == encode_baseline(msgspec.structs.replace(baseline, schema=2), "f")


@pytest.mark.usefixtures("_schema_2_renamed_a_field")
def test_an_older_schema_that_is_broken_says_so(assert_refused: Callable[..., None], file: Path) -> None:
    content = file.read_bytes().replace(b'"schema": 2', b'"schema": 1')
    assert_refused(content, errors.BrokenFileError, "does not hold what schema 1 asks for")


def test_every_older_schema_has_an_upgrade() -> None:
    assert sorted(schema.UPGRADES) == list(range(1, schema.SCHEMA_VERSION))


def test_each_kind_of_damage_to_a_session_record(storage: Storage, machine_key: str, record: SessionRecord) -> None:
    file = Path(sessions.save(storage, machine_key, record))
    (name,) = sessions.names(storage, machine_key)
    good = file.read_bytes()
    for content, kind in (
        (b"", errors.EmptyFileError),
        (good[: len(good) // 2], errors.TruncatedFileError),
        (good.replace(b'"verdict":"unchanged"', b'"verdict":"fine"'), errors.BrokenFileError),
        (good.replace(b'"trials":20', b'"trials":-20'), errors.BrokenFileError),
        (good.replace(b"gpuperf session", b"gpuperf baseline"), errors.ForeignFileError),
        (good.replace(b'"schema": 1', b'"schema": 2'), errors.NewerSchemaError),
    ):
        assert content != good
        file.write_bytes(content)
        with pytest.raises(kind, match=name):
            sessions.load(storage, machine_key, name)
        assert file.read_bytes() == content
