from __future__ import annotations

import pytest

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.rotation import NotRotatableError
from pytest_gpuperf.measure.timers import graph as graph_module
from pytest_gpuperf.measure.timers.auto import LAUNCH_BOUND_US, SHORT_US, AutoTimer
from pytest_gpuperf.measure.timers.pilot import Pilot, pilot_of


def prepared(rig, call, *, cache="warm", setup=None, preferred=None):
    timer, target = AutoTimer(rig, cache, preferred), Target(call, setup)
    timer.prepare(target)
    return timer, target


def note(timer, target):
    return timer.batch(target, 1).notes[0]


@pytest.mark.parametrize(
    ("time_us", "kind"), [(2.0, "graph"), (SHORT_US - 0.1, "graph"), (SHORT_US + 0.1, "events"), (58.0, "events")]
)
def test_the_pilot_decides_by_the_time_on_the_device(rig, time_us, kind):
    timer, _ = prepared(rig, lambda: rig.launch(time_us, host_us=1.0))
    assert timer.kind == kind
    assert timer.describe().startswith(f"{kind}, queued")


@pytest.mark.parametrize(
    ("time_us", "host_us", "kind"),
    [
        (90.0, 80.0, "events"),
        (90.0, 95.0, "graph"),
        (900.0, 5000.0, "graph"),
        (LAUNCH_BOUND_US + 0.1, 5000.0, "events"),
    ],
)
def test_what_the_host_takes_longer_to_dispatch_is_replayed_without_its_gaps(rig, time_us, host_us, kind):
    timer, _ = prepared(rig, lambda: rig.launch(time_us, host_us=host_us))
    assert timer.kind == kind


def test_it_says_what_it_chose_with_the_time_and_the_floor(rig):
    assert note(*prepared(rig, lambda: rig.launch(2.1))) == "timer auto: graph (2.1 us a call; floor 0.0051 us)"
    assert note(*prepared(rig, lambda: rig.launch(58.0))) == "timer auto: events (59 us a call; floor 1.3 us)"


@pytest.mark.parametrize("time_us", [2.0, 58.0])
@pytest.mark.parametrize("preferred", ["events", "graph"])
def test_what_it_is_compared_with_decides_before_the_pilot(rig, time_us, preferred):
    timer, target = prepared(rig, lambda: rig.launch(time_us), preferred=preferred)
    assert timer.kind == preferred
    assert "like the runs it is compared with" in note(timer, target)


@pytest.mark.parametrize("preferred", [None, "graph"])
def test_what_cannot_be_captured_falls_back_to_events_and_says_why(rig, preferred):
    def call():
        rig.launch(2.0)
        if rig.torch.capturing is not None:
            rig.wait()

    timer, target = prepared(rig, call, preferred=preferred)
    assert timer.kind == "events"
    assert "; not graph: it cannot be captured" in note(timer, target)
    assert timer.batch(target, 1).times_us == pytest.approx((2.0 + rig.event_cost_us,))


@pytest.mark.parametrize("time_us", [SHORT_US - 1.0, SHORT_US + 1.0])
def test_a_cold_call_whose_inputs_cannot_be_copied_is_alone_in_a_graph_or_not_by_the_first_runs_choice(
    rig, time_us, monkeypatch
):
    def refuse(*_):
        raise NotRotatableError("it holds a tensor")

    def call():
        rig.launch(time_us, host_us=90.0)

    monkeypatch.setattr(graph_module, "Rotation", refuse)

    first, target = prepared(rig, call, cache="cold")
    assert first.kind == ("events" if time_us < SHORT_US else "graph")
    assert ("not graph: a cold cache needs" in note(first, target)) == (time_us < SHORT_US)
    for kind in ("events", "graph"):
        assert prepared(rig, call, cache="cold", preferred=kind)[0].kind == kind


def test_nothing_and_a_setup_are_left_to_events(rig):
    nothing, _ = prepared(rig, lambda: None)
    fed, target = prepared(rig, rig.launch, setup=lambda: ((2.0,), {}))
    assert (nothing.kind, fed.kind) == ("events", "events")
    assert "not graph" not in note(fed, target)
    assert rig.torch.graphs == []


def test_a_setup_says_why_it_is_not_like_the_baseline(rig):
    fed, target = prepared(rig, rig.launch, setup=lambda: ((2.0,), {}), preferred="graph")
    assert "not graph: its `setup`" in note(fed, target)


def test_the_pilot_sees_time_floor_and_host(rig):
    pilot = pilot_of(rig, "cold", Target(lambda: rig.launch(58.0, host_us=8.0)))
    assert (pilot.net_us, pilot.floor_us, pilot.host_us) == pytest.approx((58.0, 1.3, 8.0))
    assert (pilot.queued, pilot.nothing) == (True, False)
    waiting = pilot_of(rig, "cold", Target(rig.wait))
    assert not waiting.queued


@pytest.mark.parametrize(
    ("host_us", "queued", "launch_bound"), [(60.0, True, True), (40.0, True, False), (60.0, False, False)]
)
def test_a_call_that_waits_for_the_device_is_not_launch_bound(host_us, queued, launch_bound):
    pilot = Pilot(read_us=51.3, floor_us=1.3, host_us=host_us, queued=queued, nothing=False)
    assert pilot.net_us == pytest.approx(50.0)
    assert pilot.launch_bound is launch_bound
