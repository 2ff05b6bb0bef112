"""Scripted stand-ins for a device's timing tools, and plans to measure by."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.backends.fake import FakeBackend
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.measure.timers import device_wall, eager, events, kernel
from pytest_gpuperf.measure.timers.rig import MOST_TRIALS
from pytest_gpuperf.settings import BenchmarkSettings


@pytest.fixture
def fake():
    return FakeBackend(run=1)


@pytest.fixture
def plan():
    def make(*, setup=None, timer=None, session="", **settings):
        return Plan(
            benchmark=BenchmarkId(node_id="test_file.py::test_it"),
            settings=BenchmarkSettings(**settings),
            setup=setup,
            timer=timer,
            session=session,
        )

    return make


class ScriptedEvent:
    """Stamps the scripted device's time."""

    def __init__(self, rig):
        self._rig = rig
        self.stamp_us = 0.0

    def record(self):
        self.stamp_us = self._rig.device_us

    def elapsed_time(self, later):
        return (later.stamp_us + self._rig.event_cost_us - self.stamp_us) / 1e3


class ScriptedHold:
    """Overruns when a call waited for the device, or when more was launched than the queue holds."""

    name = "queued"

    def __init__(self, rig):
        self._rig = rig
        self.holding = False
        self.begun = 0

    def begin(self, stream, expected_us):
        self.holding = True
        self.begun += 1
        self._rig.launched = 0
        self._rig.waited = False

    def release(self):
        assert self.holding, "released without being held"
        self.holding = False

    def overran(self):
        return self._rig.waited or self._rig.launched > self._rig.queue_length


class ScriptedMeter:
    """One clock for all slots."""

    name = "clock metered"
    kernel = "gpuperf_meter"

    def __init__(self, rig):
        self._rig = rig
        self.slots = []

    def start(self, slot, stream):
        self.slots.append(slot)
        self._rig.launch(33.0, name=self.kernel)

    def queue_reading(self, stream):
        pass

    def clocks_ghz(self, count):
        return (self._rig.clock_ghz,) * count

    def close(self):
        pass


class ScriptedRig:
    """A device whose time passes only by what is launched, and a host whose time passes only by being told."""

    def __init__(self):
        self.device_us = 0.0
        self.host_us = 0.0
        self.event_cost_us = 1.3
        self.clock_ghz = 1.7
        self.queue_length = 1000
        self.launched = 0
        self.waited = False
        self.flushes = 0
        self.notes = ()
        self.torch = ScriptedTorch(self)
        self.capture_stream = SimpleNamespace(name="side")
        self.hold = ScriptedHold(self)
        self.meter = ScriptedMeter(self)
        self.flush = SimpleNamespace(name="flush 120 MiB write", start=self._flush)
        self.origin = ScriptedEvent(self)
        self.events = [(ScriptedEvent(self), ScriptedEvent(self)) for _ in range(MOST_TRIALS)]

    def current(self):
        return nullcontext()

    def stream_handle(self):
        return 7

    def synchronize(self):
        pass

    def launch(self, device_us, *, host_us=5.0, count=1, name="kernel", late=False):
        """Give the device work; `late` work is on another stream and starts after all that is launched here."""
        self.host_us += host_us
        self.torch.note(name, device_us, late=late)
        if self.torch.capturing is None:
            self.launched += count
            self.device_us += device_us
        else:
            self.torch.capturing.launches += count
            self.torch.capturing.device_us += device_us

    def wait(self):
        if self.torch.capturing is not None:
            self.torch.invalidated = True
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")
        self.waited = True
        self.host_us += 50_000.0 if self.hold.holding else 20.0

    def _flush(self):
        self.flushes += 1
        self.launch(35.0, name="Memset (Device)")

    index = 0
    memory_bytes = 16 << 30
    peak = 0
    free = 16 << 30
    has_graphs = True

    def launch_next_to_nothing(self):
        self.launch(1.0, name="nothing")

    def peak_bytes(self, call):
        call()
        return self.peak

    def free_bytes(self):
        return self.free


class ScriptedGraph:
    """A graph that takes what was launched while it was captured."""

    def __init__(self, rig):
        self._rig = rig
        self.device_us = 0.0
        self.launches = 0
        self.replays = 0
        self.ended = False

    def capture_begin(self, pool, capture_error_mode):
        self.pool = pool
        self._rig.torch.capturing = self

    def capture_end(self):
        torch = self._rig.torch
        assert torch.stream.name == "side", "a capture ends on the stream that it began on"
        torch.capturing = None
        if torch.invalidated:
            torch.invalidated = False
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
        self.ended = True

    def reset(self):
        if self.ended:
            self._rig.torch.mended.append(("release", self.pool))
        self.ended = False

    def replay(self):
        self.replays += 1
        self._rig.launch(self.device_us, count=self.launches)


class ScriptedTorch:
    """What timers ask of torch: graphs, streams, a generator, a profiler."""

    OutOfMemoryError = MemoryError

    def __init__(self, rig):
        self._rig = rig
        self.capturing = None
        self.invalidated = False
        self.mended = []
        self.spans = None
        self.loses = 0
        """Records that the profiler is to lose, once for each."""
        self.profiling = False
        self.blind = False
        self.graphs = []
        self.stream = SimpleNamespace(name="main")
        generator = SimpleNamespace(
            clone_state=lambda: "state", graphsafe_set_state=lambda state: self.mended.append(state)
        )
        self.cuda = SimpleNamespace(
            CUDAGraph=self._graph,
            graph_pool_handle=lambda: (0, 7),
            default_generators=[generator],
            stream=self._on_stream,
            current_stream=lambda: self.stream,
            set_stream=self._set_stream,
            synchronize=lambda index=None: None,
            OutOfMemoryError=MemoryError,
        )
        self._C = SimpleNamespace(
            _cuda_endAllocateToPool=lambda index, pool: self.mended.append(("end", pool)),
            _cuda_releasePool=lambda index, pool: self.mended.append(("release", pool)),
            _autograd=SimpleNamespace(_profiler_enabled=lambda: self.profiling),
        )
        self.autograd = SimpleNamespace(DeviceType=SimpleNamespace(CUDA="cuda"))
        self.profiler = SimpleNamespace(ProfilerActivity=SimpleNamespace(CUDA="cuda"), profile=self._profile)

    def note(self, name, device_us, *, late):
        if self.spans is not None:
            start_us = self._rig.device_us + (1e9 if late else 0.0)
            self.spans.append((name, start_us, device_us, len(self.spans) + 1))

    def _graph(self):
        self.graphs.append(ScriptedGraph(self._rig))
        return self.graphs[-1]

    def _set_stream(self, stream):
        self.stream = stream

    @contextmanager
    def _on_stream(self, stream):
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    @contextmanager
    def _profile(self, activities, acc_events):
        self.spans = []
        profile = SimpleNamespace()
        try:
            yield profile
        finally:
            taken, self.spans = self.spans, None
            if self.blind:
                taken = []
            if self.loses:
                self.loses -= 1
                taken = [span for span in taken if span[0] != "gpuperf_meter"]
            profile.events = lambda: [self._event(*span) for span in sorted(taken, key=lambda span: span[1])]

    def _event(self, name, start_us, device_us, launch):
        return SimpleNamespace(
            device_type="cuda",
            name=name,
            id=launch,
            time_range=SimpleNamespace(start=start_us, elapsed_us=lambda: device_us),
        )


@pytest.fixture
def rig(monkeypatch):
    made = ScriptedRig()
    clock = SimpleNamespace(perf_counter_ns=lambda: int(made.host_us * 1e3))
    monkeypatch.setattr(events, "time", clock)
    for module in (device_wall, eager, kernel):
        monkeypatch.setattr(module, "time", clock)
    return made


class Cycles:
    """Counts objects that refer to themselves, which only garbage collection frees."""

    def __init__(self):
        self.alive = self.most = 0

    def leave_one(self):
        node = _Node(self)
        node.me = node


class _Node:
    def __init__(self, counted):
        self._counted = counted
        counted.alive += 1
        counted.most = max(counted.most, counted.alive)

    def __del__(self):
        self._counted.alive -= 1


@pytest.fixture
def cycles():
    return Cycles()
