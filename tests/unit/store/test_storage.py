from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.errors import StorageLocationError, UnreadableFileError, UnwritableFileError
from pytest_gpuperf.store.schema import Baseline
from pytest_gpuperf.store.storage import open_storage


@pytest.mark.parametrize("url", ["file://{}", "file://localhost{}"])
def test_file_urls_are_folders(tmp_path: Path, machine_key: str, baseline: Baseline, url: str) -> None:
    folder = tmp_path / "with space"
    baselines.update(open_storage(url.format(str(folder).replace(" ", "%20"))), machine_key, "main", lambda _: baseline)
    assert baselines.load(open_storage(folder), machine_key, "main") == baseline


@pytest.mark.parametrize("url", ["s3://bucket/x", "gs://b", "https://example.org/b", "file://elsewhere/x", "file://"])
def test_other_urls_are_refused_with_the_extra_that_helps(url: str) -> None:
    with pytest.raises(StorageLocationError, match=r"neither a folder nor.*pytest-gpuperf\[remote\]"):
        open_storage(url)


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_storage("~/perf").describe("x") == str(tmp_path / "perf" / "x")


def test_opening_and_reading_make_nothing(tmp_path: Path, machine_key: str) -> None:
    storage = open_storage(tmp_path / "store")
    assert baselines.load(storage, machine_key, "main") is None
    assert baselines.machines_with(storage, "main") == ()
    assert not (tmp_path / "store").exists()


def test_a_linked_storage_works(tmp_path: Path, machine_key: str, baseline: Baseline) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    baselines.update(open_storage(tmp_path / "link"), machine_key, "main", lambda _: baseline)
    assert baselines.load(open_storage(tmp_path / "real"), machine_key, "main") == baseline


def test_a_file_in_place_of_the_storage_is_named(tmp_path: Path, machine_key: str, baseline: Baseline) -> None:
    (tmp_path / "store").write_text("not a folder")
    storage = open_storage(tmp_path / "store")
    with pytest.raises(UnwritableFileError, match=str(tmp_path / "store")):
        baselines.update(storage, machine_key, "main", lambda _: baseline)
    with pytest.raises(UnreadableFileError, match=str(tmp_path / "store")):
        baselines.load(storage, machine_key, "main")
    with pytest.raises(UnreadableFileError, match="cannot be listed"):
        baselines.machines(storage)
    assert (tmp_path / "store").read_text() == "not a folder"
