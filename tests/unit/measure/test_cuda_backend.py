"""The CUDA back end over a scripted torch: what it asks for, restores and remembers, without a GPU."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.backends import cuda as cuda_module
from pytest_gpuperf.measure.backends.cuda import CudaBackend
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.errors import (
    DeviceUnavailableError,
    StickyDeviceError,
    StreamChangedError,
    TimerUnavailableError,
)
from pytest_gpuperf.measure.timers import rig as rig_module
from pytest_gpuperf.measure.timers.auto import AutoTimer
from pytest_gpuperf.measure.timers.events import EventsTimer
from pytest_gpuperf.measure.timers.rig import Rig
from pytest_gpuperf.settings import BenchmarkSettings

FREE_BYTES, TOTAL_BYTES = 90, 100


class ScriptedCuda:
    """Two devices with a current one, a current stream each, memory statistics, and an error state."""

    def __init__(self):
        self.device_index = 0
        self.streams = [SimpleNamespace(cuda_stream=0), SimpleNamespace(cuda_stream=0)]
        self.broken = False
        self.held_bytes = 1000
        self.peak_bytes = 1000
        self.cache_emptied = 0
        self.slept = 0
        self.free_bytes = FREE_BYTES

    def is_available(self):
        return True

    def device_count(self):
        return 2

    def current_device(self):
        return self.device_index

    def set_device(self, index):
        self.device_index = index

    @contextmanager
    def device(self, index):
        before, self.device_index = self.device_index, index
        try:
            yield
        finally:
            self.device_index = before

    def current_stream(self, index=None):
        return self.streams[self.device_index if index is None else index]

    def set_stream(self, stream):
        self.streams[self.device_index] = stream

    def synchronize(self, index=None):
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    def get_device_properties(self, index):
        return SimpleNamespace(uuid=f"uuid-{index}", L2_cache_size=60 << 20)

    def get_device_name(self, index):
        return "NVIDIA Scripted"

    def Event(self, enable_timing=False):
        return SimpleNamespace(record=lambda: None, query=lambda: False, elapsed_time=lambda later: 0.002)

    def _sleep(self, cycles):
        self.slept += 1

    def reset_peak_memory_stats(self, index):
        self.peak_bytes = self.held_bytes

    def memory_stats(self, index):
        return {"requested_bytes.all.current": self.held_bytes, "requested_bytes.all.peak": self.peak_bytes}

    def memory_reserved(self, index):
        return 4096

    def max_memory_reserved(self, index):
        return 4096 + 2 * (1 << 20)

    def mem_get_info(self, index):
        return self.free_bytes, TOTAL_BYTES

    def empty_cache(self):
        self.synchronize()
        self.cache_emptied += 1

    def take(self, size_bytes):
        self.peak_bytes = max(self.peak_bytes, self.held_bytes + size_bytes)


class ScriptedTorch:
    __version__ = "2.99"
    int32 = "int32"
    __spec__ = ModuleSpec("torch", None)
    version = SimpleNamespace(cuda="13.0")

    def __init__(self):
        self.cuda = ScriptedCuda()

    def empty(self, count, **_):
        return SimpleNamespace(zero_=lambda: None)

    def ones(self, count, device):
        self.cuda.synchronize()
        return SimpleNamespace(sum=lambda: SimpleNamespace(item=lambda: 1.0))


@pytest.fixture
def torch(monkeypatch):
    made = ScriptedTorch()
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(rig_module, "DeviceCode", refuse)
    return made


def refuse():
    raise rig_module.DeviceCodeError("no kernel image is available")


@pytest.fixture
def backend(torch):
    return CudaBackend(1)


def test_it_is_the_device_asked_for(torch):
    made = backend_for("cuda:1")
    assert made.device == "cuda:1"
    assert made.lock_name == "GPU-uuid-1"
    assert backend_for("cuda").device == "cuda:0"
    assert made.machine().model == "NVIDIA Scripted"
    assert made.machine().cuda == "13.0"


def test_an_index_out_of_range_lists_what_there_is(torch):
    with pytest.raises(DeviceUnavailableError, match=r"cuda:2: there is no such GPU; available: cuda:0, cuda:1"):
        backend_for("cuda:2")


@pytest.mark.parametrize("kind", ["events", "graph", "kernel", "wall"])
def test_each_timer_can_be_asked_for_or_preferred(backend, kind):
    assert backend.timer(BenchmarkSettings(timer=kind)).kind == kind
    assert backend.timer(BenchmarkSettings(timer=kind), "events").kind == kind
    preferred = backend.timer(BenchmarkSettings(), kind)
    assert isinstance(preferred, AutoTimer) == (kind in ("events", "graph"))
    assert isinstance(preferred, AutoTimer) or preferred.kind == kind


def test_auto_is_decided_by_a_pilot_and_an_unknown_timer_is_refused(backend):
    assert isinstance(backend.timer(BenchmarkSettings()), AutoTimer)
    with pytest.raises(TimerUnavailableError, match=r"`sundial` does not exist on cuda:1: use one of events, graph"):
        backend.timer(BenchmarkSettings(timer="sundial"))


def test_a_device_that_refuses_the_kernels_falls_back_and_says_so(backend):
    timer = backend.timer(BenchmarkSettings(timer="events"))
    timer.prepare(Target(lambda: None))
    batch = timer.batch(Target(lambda: None), 3)
    assert timer.describe() == "events, queued by sleep, flush 120 MiB write"
    assert "no kernel image is available" in batch.notes[0]
    assert batch.clocks_ghz == ()


def test_the_tools_are_made_once_and_closed_once(backend):
    assert backend.rig() is backend.rig()
    backend.close()
    backend.close()


def test_calls_see_the_measured_device_as_current(torch, backend):
    seen = []
    timer = backend.timer(BenchmarkSettings())
    timer.prepare(Target(lambda: seen.append(torch.cuda.current_device())))
    assert set(seen) == {1}
    assert torch.cuda.current_device() == 0


def test_a_changed_stream_is_restored_and_refused(torch, backend):
    before = torch.cuda.streams[1]
    with pytest.raises(StreamChangedError, match="changed the current stream"), backend.rig().current():
        torch.cuda.set_stream(SimpleNamespace(cuda_stream=99))
    assert torch.cuda.streams[1] is before


def test_a_changed_device_is_restored_and_refused(torch, backend):
    with (
        pytest.raises(StreamChangedError, match="changed the current device from cuda:1 to cuda:0"),
        backend.rig().current(),
    ):
        torch.cuda.set_device(0)
    assert torch.cuda.current_device() == 0


def test_an_exception_is_not_hidden_by_the_changed_stream_it_left(torch, backend):
    before = torch.cuda.streams[1]

    def call():
        torch.cuda.set_stream(SimpleNamespace(cuda_stream=99))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), backend.rig().current():
        call()
    assert torch.cuda.streams[1] is before


def test_peak_memory_is_what_the_call_added(torch, backend):
    assert backend.peak_memory_bytes(Target(lambda: torch.cuda.take(4096))) == 4096
    assert backend.peak_memory_bytes(Target(lambda: None)) == 0


def test_reserved_memory_is_what_the_allocator_took_with_its_cache_emptied_before(torch, backend):
    emptied, order = torch.cuda.cache_emptied, []
    target = Target(lambda: order.append(torch.cuda.cache_emptied))
    assert backend.peak_reserved_bytes(target) == 2 << 20
    assert order == [emptied + 1]


@pytest.mark.parametrize(("free_bytes", "copies"), [(139 << 30, 3), (4 << 30, 2), (1, 1)])
def test_ceilings_are_probed_with_buffers_that_fit(torch, backend, monkeypatch, free_bytes, copies):
    torch.cuda.free_bytes = free_bytes
    asked = []
    monkeypatch.setattr(cuda_module, "torch_probes", lambda torch, device, sizes: asked.append((device, sizes)) or [])
    probing = backend.probing()
    assert list(probing.probes()) == []
    ((device, sizes),) = asked
    assert device == backend.device
    assert len(sizes.copies_bytes) == copies
    assert {arithmetic for arithmetic, _ in sizes.matmuls} == {"bf16", "fp16", "tf32", "fp32"}
    assert (probing.by, probing.cache_bytes) == ("torch 2.99, CUDA 13.0", 60 << 20)


def test_memory_of_setup_is_not_the_calls(torch, backend):
    def setup():
        torch.cuda.take(10**6)
        return (64,), {}

    assert backend.peak_memory_bytes(Target(torch.cuda.take, setup)) == 64


def test_a_failure_that_leaves_the_device_working_is_forgotten(backend):
    backend.note_failure("culprit", ZeroDivisionError())
    backend.check_usable()


def test_a_failure_that_breaks_the_device_is_remembered_with_its_first_culprit(torch, backend):
    torch.cuda.broken = True
    backend.note_failure("culprit", RuntimeError())
    backend.note_failure("victim", RuntimeError())
    for _ in range(2):
        with pytest.raises(StickyDeviceError, match=r"cuda:1 is in an error state since culprit \(RuntimeError: CUDA"):
            backend.check_usable()


def test_a_broken_device_is_left_alone_at_the_end(torch, backend):
    backend.rig()
    torch.cuda.broken = True
    backend.note_failure("culprit", RuntimeError())
    backend.release_memory()
    backend.close()


@pytest.mark.parametrize(("free_bytes", "generations"), [(90, (1,)), (10, ())])
def test_a_full_collection_waits_until_memory_is_short(torch, backend, monkeypatch, free_bytes, generations):
    collected = []
    monkeypatch.setattr("gc.collect", lambda *arguments: collected.append(arguments))
    torch.cuda.free_bytes = free_bytes
    backend.release_memory()
    assert collected == [generations]
    assert torch.cuda.cache_emptied == 1


def test_without_nvml_the_state_is_unknown_and_the_reason_told(backend):
    reading = backend.read_state()
    assert reading.temperature_c is None
    assert "no NVML" in reading.notes[0]


@pytest.mark.parametrize("seen", [True, False, None])
def test_the_profiler_is_asked_only_where_the_events_leave_a_doubt(torch, backend, monkeypatch, seen):
    asked = []
    monkeypatch.setattr(
        "pytest_gpuperf.measure.backends.cuda.profiled_work", lambda *arguments: asked.append(arguments) or seen
    )
    timer = EventsTimer(Rig(torch, 1, backend._nvml), "cold")
    target = Target(lambda: None)
    timer.prepare(target)
    monkeypatch.setattr(timer, "at_floor", lambda batch: False)
    assert backend.work_recorded(target, timer) is True
    assert asked == []
    monkeypatch.setattr(timer, "at_floor", lambda batch: True)
    assert backend.work_recorded(target, timer) is seen
    assert len(asked) == 1


def test_the_timer_that_auto_chose_is_asked_whether_there_was_work(backend, monkeypatch):
    timer, target = backend.timer(BenchmarkSettings()), Target(lambda: None)
    timer.prepare(target)
    assert isinstance(timer.chosen, EventsTimer)
    monkeypatch.setattr(backend, "_probe", lambda target: pytest.fail("a probe was made"))
    monkeypatch.setattr(timer.chosen, "at_floor", lambda batch: False)
    assert backend.work_recorded(target, timer) is True


def test_free_memory_is_what_the_device_has_left_and_the_allocator_keeps(torch, backend, monkeypatch):
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda index: 4000, raising=False)
    assert backend.rig().free_bytes() == FREE_BYTES + 96
    assert backend.rig().memory_bytes == TOTAL_BYTES
