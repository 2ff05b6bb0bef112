"""Letting go of CUPTI over a scripted torch and library."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.cupti import Cupti, detach


def scripted(cuda: str | None = "13.0", *, profiling: bool = False):
    """Return a torch that says so of itself, with what was done in order under `done`."""
    done: list[str] = []
    torch = SimpleNamespace(
        done=done,
        version=SimpleNamespace(cuda=cuda),
        cuda=SimpleNamespace(synchronize=lambda index: done.append(f"waited for {index}")),
        _C=SimpleNamespace(_autograd=SimpleNamespace(_profiler_enabled=lambda: profiling)),
    )

    def load(name):
        done.append(name)
        return SimpleNamespace(cuptiFinalize=lambda: done.append("let go"))

    return torch, load


@pytest.fixture(autouse=True)
def attached(monkeypatch):
    monkeypatch.setattr(Cupti, "is_attached", True)


@pytest.mark.parametrize(("cuda", "library"), [("13.0", "libcupti.so.13"), ("12.6", "libcupti.so.12")])
def test_it_is_let_go_once_and_only_when_the_device_is_idle(cuda, library):
    torch, load = scripted(cuda)
    detach(torch, 1, load)
    detach(torch, 1, load)
    assert torch.done == [library, "waited for 1", "let go"]


def test_what_is_not_attached_is_not_touched(monkeypatch):
    monkeypatch.setattr(Cupti, "is_attached", False)
    torch, load = scripted()
    detach(torch, 0, load)
    assert torch.done == []


@pytest.mark.parametrize("cuda", ["12.5", "11.8", None])
def test_it_stays_where_letting_go_may_crash(cuda):
    torch, load = scripted(cuda)
    detach(torch, 0, load)
    assert torch.done == []


def test_a_profile_that_is_being_taken_keeps_it():
    torch, load = scripted(profiling=True)
    detach(torch, 0, load)
    assert torch.done == []
    assert Cupti.is_attached  # and it is let go after that


def test_a_library_that_is_not_in_the_process_is_not_loaded():
    torch, _ = scripted("987.6")
    detach(torch, 0)
    assert torch.done == []
