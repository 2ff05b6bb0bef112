"""What a fresh process records: the kernels of a call, and no more."""

from __future__ import annotations

import itertools

import pytest

from pytest_gpuperf.checks import recording
from pytest_gpuperf.checks.launches import Launch, Observed
from pytest_gpuperf.checks.subject import Subject

pytest.importorskip("torch")


class Watcher:
    """Sees the scripted kernels of one call after the other."""

    call_s = 0.0

    def __init__(self, *calls, sees_kernels=True):
        self.sees_kernels = sees_kernels
        self._calls = itertools.cycle(calls)
        self.warm = 0

    def watch(self, call):
        launches = tuple(Launch(name=name, duration_us=1.0) for name in next(self._calls))
        return Observed(output=call(), launches=launches)

    def synchronize(self):
        pass

    def warm_up(self):
        self.warm += 1


@pytest.fixture
def recorded(monkeypatch):
    def run(watcher, fn):
        monkeypatch.setattr(recording, "watcher_for", lambda device, torch: watcher)
        return recording.record_kernels(Subject(fn=fn))

    return run


def test_the_kernels_of_two_calls_that_agree(recorded):
    found = recorded(Watcher(["gemm", "void at::native::copy(int)"]), lambda: None)
    assert found.kernel_names == ("gemm", "copy")
    assert [use.name for use in found.kernels] == ["gemm", "void at::native::copy(int)"]
    assert found.findings == ()


def test_calls_that_differ_leave_the_list_unknown(recorded):
    assert recorded(Watcher(["gemm"], ["gemm", "copy"]), lambda: None).kernel_names is None


def test_a_profiler_that_sees_nothing_leaves_the_list_unknown(recorded):
    assert recorded(Watcher([]), lambda: None).kernel_names is None


def test_a_call_that_fails_is_handed_on(recorded):
    def fails():
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    found = recorded(Watcher(["gemm"]), fails)
    assert found.kernel_names is None
    assert "illegal" in str(found.broke_off)


def test_on_a_cpu_nothing_is_called(recorded):
    calls, watcher = [], Watcher(["aten.exp"], sees_kernels=False)
    assert recorded(watcher, lambda: calls.append(1)).kernel_names is None
    assert (calls, watcher.warm) == ([], 0)
