from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.measure.ceilings import Ceiling, Ceilings
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.store.ceilings import load, load_or_measure, place_of, user_cache

MACHINE = Machine(model="NVIDIA H200", kind="cuda", driver="580.65")


class Measuring:
    """Counts how often the ceilings were measured, each time higher."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Ceilings:
        self.times += 1
        bandwidth = Ceiling(per_s=self.times * 1e12)
        return Ceilings(model="NVIDIA H200", by="torch", bandwidth=bandwidth, margin=1.1, clock_margin=1.3)


@pytest.fixture
def measure() -> Measuring:
    return Measuring()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return place_of(MACHINE, "torch 2.11", tmp_path / "cache")


def test_they_are_measured_once(place: Path, measure: Measuring) -> None:
    first = load_or_measure(place, measure)
    assert load_or_measure(place, measure) == first == load(place)
    assert measure.times == 1
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_anew_replaces_them(place: Path, measure: Measuring) -> None:
    load_or_measure(place, measure)
    anew = load_or_measure(place, measure, anew=True)
    assert anew.bandwidth.per_s == 2e12
    assert load(place) == anew


@pytest.mark.parametrize("content", [b"", b"{", b'{"model": 3}', b"\xff\xfe"], ids=["empty", "cut", "wrong", "binary"])
def test_what_cannot_be_read_is_measured_anew(place: Path, measure: Measuring, content: bytes) -> None:
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    assert load_or_measure(place, measure).bandwidth.per_s == 1e12
    assert load(place) is not None


def test_a_place_that_cannot_be_written_costs_only_the_cache(tmp_path: Path, measure: Measuring) -> None:
    (tmp_path / "file").write_text("in the way")
    place = place_of(MACHINE, "torch", tmp_path / "file")
    assert load_or_measure(place, measure).bandwidth.per_s == 1e12


def test_each_machine_driver_and_software_has_its_own(tmp_path: Path) -> None:
    other_driver = Machine(model="NVIDIA H200", kind="cuda", driver="590.01")
    places = {
        place_of(MACHINE, "torch 2.11", tmp_path),
        place_of(MACHINE, "torch 2.12", tmp_path),
        place_of(other_driver, "torch 2.11", tmp_path),
    }
    assert len(places) == 3
    assert all(place.name.startswith("NVIDIA-H200-") for place in places)


def test_the_users_cache_folder_is_where_the_desktop_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "pytest-gpuperf"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert user_cache() == tmp_path / "home" / ".cache" / "pytest-gpuperf"
