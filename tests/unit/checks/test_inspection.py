"""One benchmark's inspection from its first call to its findings; the GPU's part with scripted launches."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pytest_gpuperf.checks import inspection as module
from pytest_gpuperf.checks.budget import Budget
from pytest_gpuperf.checks.compiling import Compilations
from pytest_gpuperf.checks.inspection import Inspection
from pytest_gpuperf.checks.launches import Launch, Observed
from pytest_gpuperf.checks.registry import CHECKS
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.settings import CHECKS as NAMES

torch = pytest.importorskip("torch")


def record(mean_us=100.0, trials=20):
    times = dict.fromkeys(("mean_us", "sd_us", "min_us", "p5_us", "p95_us", "half_width_us"), mean_us)
    return RunRecord(trials=trials, log_median=0.0, **times)


class Gpu:
    """A watcher whose launches are what the callable under test puts on it."""

    sees_kernels = True
    call_s = 0.0

    def __init__(self):
        self.queue = []
        self.warm = 0

    def launch(self, name, us=100.0, stream=7):
        self.queue.append(Launch(name=name, start_us=1000.0 * len(self.queue), duration_us=us, stream=stream))

    def watch(self, call):
        self.queue = []
        output = call()
        return Observed(output=output, launches=tuple(self.queue))

    def synchronize(self):
        pass

    def warm_up(self):
        self.warm += 1


@pytest.fixture
def gpu(monkeypatch):
    made = Gpu()
    monkeypatch.setattr(module, "watcher_for", lambda device, torch: made)
    return made


def inspect(fn, *args, mean_us=100.0, budget_s=60.0, allowed=(), **stated):
    found = Inspection(Subject(fn=fn, args=args, **stated), allowed=allowed, budget=Budget(budget_s))
    found.first_call(fn(*args), None)
    found.before()
    with found.timing():
        pass
    return found.after(record(mean_us), "events")


@pytest.fixture
def no_waits(monkeypatch):
    from pytest_gpuperf.checks import evidence
    from pytest_gpuperf.checks.waits import Waits

    monkeypatch.setattr(evidence, "cuda_waits", lambda torch, call: Waits())


def checks(found):
    return {finding.check for finding in found.findings}


def test_every_name_that_can_be_allowed_is_a_check():
    assert {check.name for check in CHECKS} == set(NAMES)


def test_each_finding_says_what_why_and_how_to_allow_it(gpu, no_waits):
    found = inspect(lambda: gpu.launch("gemm"), mean_us=4.0)
    (finding,) = found.findings
    assert finding.line.startswith("streams: one call keeps the GPU busy for 100 us, of which the timer saw 4 us; ")
    assert 'allow=["streams"] in the perf marker allows it' in finding.line
    assert "\n" not in finding.line
    assert inspect(lambda: gpu.launch("gemm"), mean_us=4.0, allowed=("streams",)).findings == ()


def test_the_kernels_of_a_call_are_listed(gpu, no_waits):
    def step():
        gpu.launch("void gemm(int)")
        gpu.launch("copy", us=5.0, stream=13)

    found = inspect(step, mean_us=105.0)
    assert found.findings == ()
    assert found.kernel_names == ("gemm", "copy")
    assert [(use.name, use.streams) for use in found.kernels] == [("void gemm(int)", (7,)), ("copy", (13,))]


def test_kernels_that_differ_from_call_to_call_are_not_listed(gpu, no_waits):
    def step():
        step.calls += 1
        gpu.launch(f"kernel_{step.calls}")

    step.calls = 0
    assert inspect(step).kernels is None


def test_a_limit_is_a_limit_whatever_the_checks_do(gpu, no_waits):
    (finding,) = inspect(lambda: gpu.launch("gemm") or gpu.launch("copy"), mean_us=200.0, max_kernels=1).findings
    assert finding.is_limit
    assert "allow" not in finding.remedy


def test_work_that_shrinks_on_a_gpu(gpu, no_waits):
    def step():
        step.calls += 1
        gpu.launch("gemm", us=10.0)
        if step.calls <= 3:
            gpu.launch("softmax", us=90.0)

    step.calls = 0
    assert checks(inspect(step, mean_us=50.0)) == {"work"}


def test_a_lost_device_ends_the_looking(gpu, no_waits):
    def step():
        step.calls += 1
        if step.calls > 3:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    step.calls = 0
    found = inspect(step)
    assert found.findings == ()
    assert step.calls == 4
    assert isinstance(found.broke_off, RuntimeError)
    assert "CUDA error" in found.notes[0]


def test_the_first_profile_is_nobodys_time(gpu, no_waits):
    inspect(lambda: gpu.launch("gemm"))
    assert gpu.warm == 2  # it is for the watcher to do it once


def test_without_time_nothing_more_is_called():
    def step(x):
        step.calls += 1
        return x * 2

    step.calls = 0
    found = inspect(step, torch.ones(4), mean_us=1e6, budget_s=0.5)
    assert step.calls == 3  # the verified one and the early ones
    assert found.findings == ()
    (note,) = found.notes
    assert note.startswith("checks came to nothing (no time for more calls): ")


def test_a_slow_first_call_is_not_repeated_before_timing(monkeypatch):
    monkeypatch.setattr(module, "LONGEST_FIRST_CALL_S", -1.0)

    def step(x):
        step.calls += 1
        return x * 2

    step.calls = 0
    found = Inspection(Subject(fn=step, args=(torch.ones(4),)))
    found.first_call(step(torch.ones(4)), None)
    found.before()
    assert step.calls == 1


def test_without_torch_nothing_is_called(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    calls = []
    assert inspect(calls.append, 1).findings == ()
    assert len(calls) == 1


def test_a_check_that_fails_is_a_note_and_the_others_go_on(monkeypatch):
    from pytest_gpuperf.checks import mutation

    def broken(name, evidence):
        raise ZeroDivisionError("mine")

    def zeroing(x, calls=[]):  # noqa: B006 - it is to remember
        result = x.exp()
        if not calls:
            x.zero_()
        calls.append(1)
        return result

    monkeypatch.setattr(mutation, "_is_left_alone_now", broken)
    found = inspect(zeroing, torch.rand(2000))
    assert "checks came to nothing (failed: ZeroDivisionError: mine): mutation" in found.notes


@pytest.mark.parametrize(("count", "is_found"), [(1, False), (2, True)])
def test_compiling_while_timing_is_found(monkeypatch, count, is_found):
    class Kernel:
        def _do_compile(self):
            return "compiled"

    monkeypatch.setitem(sys.modules, "triton.runtime.jit", SimpleNamespace(JITFunction=Kernel))
    before = Kernel._do_compile
    found = Inspection(Subject(fn=len))
    found.first_call(0, None)
    with found.timing():
        assert [Kernel()._do_compile() for _ in range(count)] == ["compiled"] * count
    assert Kernel._do_compile is before
    assert checks(found.after(record(), "events")) == ({"compiling"} if is_found else set())


def test_graphs_that_torch_compiles_are_counted(monkeypatch):
    counters = {"stats": {"unique_graphs": 3}}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(counters=counters))
    compilations = Compilations()
    with compilations.watching():
        counters["stats"]["unique_graphs"] = 5
    assert compilations.count == 2
