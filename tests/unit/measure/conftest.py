"""Scripted stand-ins for a device's timing tools, and plans to measure by."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.backends.fake import FakeBackend
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.measure.timers import device_wall, events
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

    def __init__(self, rig):
        self._rig = rig
        self.slots = []

    def start(self, slot, stream):
        self.slots.append(slot)
        self._rig.launch(33.0)

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

    def launch(self, device_us, *, host_us=5.0, count=1):
        self.device_us += device_us
        self.host_us += host_us
        self.launched += count

    def wait(self):
        self.waited = True
        self.host_us += 50_000.0 if self.hold.holding else 20.0

    def _flush(self):
        self.flushes += 1
        self.launch(35.0)


@pytest.fixture
def rig(monkeypatch):
    made = ScriptedRig()
    clock = SimpleNamespace(perf_counter_ns=lambda: int(made.host_us * 1e3))
    monkeypatch.setattr(events, "time", clock)
    monkeypatch.setattr(device_wall, "time", clock)
    return made
