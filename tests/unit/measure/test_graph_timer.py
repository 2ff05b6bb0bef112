from __future__ import annotations

import functools
from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.errors import GraphUnavailableError
from pytest_gpuperf.measure.rotation import NotRotatableError
from pytest_gpuperf.measure.timers import graph as graph_module
from pytest_gpuperf.measure.timers.graph import MOST_CALLS, GraphTimer, unrolled_calls


class Rotation:
    """Stands in for copies of inputs: there are no tensors on the scripted device."""

    size_bytes = 1 << 20
    refusal = ""
    made = 0

    def __init__(self, target, torch):
        if Rotation.refusal:
            raise NotRotatableError(Rotation.refusal)
        self._target = target

    def call(self):
        Rotation.made += 1
        return functools.partial(self._target.call)


@pytest.fixture(autouse=True)
def rotation(monkeypatch):
    monkeypatch.setattr(graph_module, "Rotation", Rotation)
    monkeypatch.setattr(Rotation, "refusal", "")
    monkeypatch.setattr(Rotation, "made", 0)
    monkeypatch.setattr(Rotation, "size_bytes", 1 << 20)
    return Rotation


def prepared(rig, call, *, cache="warm", setup=None):
    timer, target = GraphTimer(rig, cache), Target(call, setup)
    timer.prepare(target)
    return timer, target


@pytest.mark.parametrize(
    ("time_us", "calls"),
    [(0.0, 256), (1.2, 256), (3.9, 256), (3.95, 256), (5.0, 256), (9.0, 128), (500.0, 2), (1e3, 1), (1e6, 1)],
)
def test_a_replay_is_long_and_its_calls_a_power_of_two(time_us, calls):
    assert unrolled_calls(time_us, host_us=5.0) == calls


def test_a_slow_host_and_little_memory_mean_fewer_calls():
    assert unrolled_calls(2.0, host_us=100_000.0) == 16
    assert unrolled_calls(2.0, host_us=5.0, each_bytes=1 << 20, most_bytes=100 << 20) == 64
    assert unrolled_calls(2.0, host_us=1e9, each_bytes=1 << 40, most_bytes=1) == 1


def test_a_trial_is_a_replays_share(rig):
    timer, target = prepared(rig, lambda: rig.launch(2.0))
    batch = timer.batch(target, 5)
    assert timer.calls == MOST_CALLS
    assert batch.times_us == pytest.approx([2.0 + rig.event_cost_us / MOST_CALLS] * len(batch.times_us))
    assert timer.floor_us == pytest.approx(rig.event_cost_us / MOST_CALLS)
    assert timer.call_us == pytest.approx(2.0 + timer.floor_us)
    assert "graph of 256 calls" in batch.notes


def test_each_replay_is_queued_and_metered_once(rig):
    timer, target = prepared(rig, lambda: rig.launch(2.0))
    timer.batch(target, 4)
    (graph,) = rig.torch.graphs
    rig.meter.slots.clear()
    before, held = graph.replays, rig.hold.begun
    count = len(timer.batch(target, 4).times_us)
    assert graph.replays - before == len(rig.meter.slots) == count > 1
    assert rig.hold.begun == held + 1


def test_the_hosts_time_is_that_of_ordinary_calls(rig):
    timer, target = prepared(rig, lambda: rig.launch(2.0, host_us=17.0))
    batch = timer.batch(target, 5)
    assert batch.host_us == pytest.approx([17.0] * len(batch.times_us))


def test_the_identity_says_how_and_not_how_many(rig):
    warm, _ = prepared(rig, lambda: rig.launch(2.0))
    longer, _ = prepared(rig, lambda: rig.launch(30.0))
    cold, _ = prepared(rig, lambda: rig.launch(2.0), cache="cold")
    assert warm.describe() == longer.describe() == "graph, queued, no flush, clock metered"
    assert cold.describe() == "graph, queued, flush 120 MiB write, clock metered, inputs of its own for each call"
    assert warm.calls != longer.calls


def test_a_cold_graph_has_inputs_for_each_call_and_flushes_before_each_replay(rig, rotation):
    rig.queue_length = 10**6
    timer, target = prepared(rig, lambda: rig.launch(2.0), cache="cold")
    assert rotation.made == timer.calls == MOST_CALLS
    rig.flushes = 0
    assert len(timer.batch(target, 4).times_us) == rig.flushes


def test_a_warm_graph_needs_no_copies_and_flushes_nothing(rig, rotation):
    timer, target = prepared(rig, lambda: rig.launch(2.0))
    timer.batch(target, 4)
    assert rotation.made == rig.flushes == 0


@pytest.mark.parametrize("time_us", [2.0, 39.0, 41.0, 250.0, 5000.0])
def test_a_call_whose_inputs_cannot_be_copied_is_cold_alone_however_long_it_is(rig, rotation, monkeypatch, time_us):
    monkeypatch.setattr(rotation, "refusal", "the function holds a tensor itself (closure variable w)")
    timer, target = prepared(rig, lambda: rig.launch(time_us), cache="cold")
    assert timer.calls == 1
    assert timer.floor_us == pytest.approx(rig.event_cost_us)
    assert timer.describe().endswith(", one call a replay")
    [note] = timer.batch(target, 1).notes
    assert note.startswith("graph of 1 call: ")
    assert note.endswith("closure variable w)")
    warm, target = prepared(rig, lambda: rig.launch(2.0), cache="warm")
    assert warm.batch(target, 1).notes == ("graph of 256 calls",)


def test_a_call_that_could_have_copies_is_not_told_apart_by_being_too_long_for_a_second_one(rig, rotation):
    described = [
        prepared(rig, lambda time_us=time_us: rig.launch(time_us), cache="cold")[0].describe()
        for time_us in (900.0, 1100.0)
    ]
    assert described[0] == described[1]
    assert rotation.made == 2  # none for the one that is alone


def test_copies_take_a_share_of_the_memory_at_most(rig, rotation, monkeypatch):
    monkeypatch.setattr(rig, "peak", 7 << 20)
    timer, _ = prepared(rig, lambda: rig.launch(2.0), cache="cold")
    assert timer.calls == 128
    monkeypatch.setattr(rotation, "size_bytes", 100 << 20)
    timer, _ = prepared(rig, lambda: rig.launch(2.0), cache="cold")
    assert timer.calls == 1
    assert "copies of 112197632 bytes are more than the memory to spare" in timer.alone_because


def test_memory_that_is_not_free_is_not_taken(rig, monkeypatch):
    monkeypatch.setattr(rig, "free", 258 << 20)
    timer, _ = prepared(rig, lambda: rig.launch(2.0), cache="cold")
    assert timer.calls == 128
    monkeypatch.setattr(rig, "free", 0)
    timer, _ = prepared(rig, lambda: rig.launch(2.0), cache="cold")
    assert (timer.calls, "memory to spare" in timer.alone_because) == (1, True)


def test_a_call_that_waits_is_refused_before_any_capture(rig):
    def call():
        rig.launch(2.0)
        rig.wait()

    with pytest.raises(GraphUnavailableError, match=r"waits for the device.*timer=events"):
        prepared(rig, call)
    assert rig.torch.graphs == []


def test_setup_is_refused(rig):
    with pytest.raises(GraphUnavailableError, match="setup"):
        prepared(rig, rig.launch, setup=lambda: ((2.0,), {}))


def capturable_only_eagerly(rig):
    def call():
        rig.launch(2.0)
        if rig.torch.capturing is not None:
            rig.wait()

    return call


def test_a_failed_capture_is_one_error_and_is_mended(rig):
    with pytest.raises(
        GraphUnavailableError, match=r"cannot be captured in a CUDA graph \(RuntimeError: CUDA error: ope"
    ):
        prepared(rig, capturable_only_eagerly(rig))
    torch = rig.torch
    assert torch.mended == [("end", (0, 7)), ("release", (0, 7)), "state"]
    assert (torch.capturing, torch.stream.name) == (None, "main")
    timer, target = prepared(rig, lambda: rig.launch(2.0))
    assert timer.batch(target, 1).times_us


def test_an_error_of_the_callable_itself_gives_the_pool_back_once(rig):
    def call():
        rig.launch(2.0)
        if rig.torch.capturing is not None:
            raise ZeroDivisionError

    with pytest.raises(GraphUnavailableError, match="ZeroDivisionError"):
        prepared(rig, call)
    assert rig.torch.mended == [("release", (0, 7)), "state"]


def test_an_interrupt_is_no_capture_error_and_mended_too(rig):
    def call():
        rig.launch(2.0)
        if rig.torch.capturing is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepared(rig, call)
    assert "state" in rig.torch.mended


def test_a_stream_that_the_call_changed_does_not_spoil_the_end_of_the_capture(rig):
    def call():
        rig.launch(2.0)
        if rig.torch.capturing is not None:
            rig.torch.cuda.set_stream(SimpleNamespace(name="other"))

    timer, _ = prepared(rig, call)
    assert timer.calls == MOST_CALLS


def test_a_graph_that_misses_work_is_refused(rig):
    def call():
        captured, rig.torch.capturing = rig.torch.capturing, None
        rig.launch(90.0)  # on a stream that the capture does not see
        rig.torch.capturing = captured
        rig.launch(2.0)

    with pytest.raises(GraphUnavailableError, match="leaves work out"):
        prepared(rig, call)


def test_a_replay_that_overfills_the_queue_is_made_smaller_rather_than_unqueued(rig):
    timer, target = prepared(rig, lambda: rig.launch(2.0, count=10))
    assert timer.calls == 64
    assert not timer.batch(target, 1).unqueued
    rig.queue_length = 5
    with pytest.raises(GraphUnavailableError):
        prepared(rig, lambda: rig.launch(2.0, count=10))


def test_a_single_call_that_overfills_the_queue_only_in_a_graph_is_refused(rig):
    def call():
        rig.launch(2000.0, count=1 if rig.torch.capturing is None else 5000)

    with pytest.raises(GraphUnavailableError, match="more than the device's queue holds"):
        prepared(rig, call)


def test_no_benchmarks_graph_is_the_first_of_its_process(rig):
    rig.has_graphs = False
    prepared(rig, lambda: rig.launch(2.0))
    prepared(rig, lambda: rig.launch(2.0))
    *first, one, other = rig.torch.graphs
    assert [(graph.device_us, graph.launches, graph.replays) for graph in first] == [(8.0, 8, 1)] * 2
    assert (one.launches, other.launches) == (MOST_CALLS, MOST_CALLS)


@pytest.mark.parametrize(("in_graph_us", "believed"), [(30.0, True), (9.0, True), (6.0, False)])
def test_a_graph_may_be_some_times_quicker_than_the_gaps_of_its_calls(rig, in_graph_us, believed):
    def call():
        rig.launch(30.0 if rig.torch.capturing is None else in_graph_us)

    timer = GraphTimer(rig, "warm")
    if believed:
        timer.prepare(Target(call))
        assert timer.call_us == pytest.approx(in_graph_us, rel=0.01)
    else:
        with pytest.raises(GraphUnavailableError, match="leaves work out"):
            timer.prepare(Target(call))
