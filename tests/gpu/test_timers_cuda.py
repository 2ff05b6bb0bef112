"""The timers side by side on a real CUDA device; their logic is tested with scripted tools under tests/unit/measure."""

from __future__ import annotations

import functools
import gc
import math

import pytest

from pytest_gpuperf.measure.device_profile import profiled
from pytest_gpuperf.measure.errors import GraphUnavailableError, NoGpuWorkError
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan, timer_kind
from pytest_gpuperf.settings import BenchmarkSettings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

TIMERS = ("events", "graph", "kernel", "wall")
MEBIBYTE_ELEMENTS = 1 << 18
"""Of float32."""


@pytest.fixture
def vector(backend):
    return torch.randn(4096, device=backend.device)


def run(backend, fn, *args, setup=None, **settings):
    plan = Plan(
        benchmark=BenchmarkId(node_id="test"),
        settings=BenchmarkSettings(**{"max_time": 0.2, **settings}),
        setup=setup,
    )
    return measure(fn if setup else functools.partial(fn, *args), plan, backend)


def median_us(measurement):
    return math.exp(measurement.record.log_median)


def kernel_us(backend, call, calls=20):
    """Return what the profiler reads for one call's kernels, warm."""
    call()
    profiled(torch, call, backend.index)
    spans = profiled(torch, lambda: [call() for _ in range(calls)], backend.index)
    return sum(span.duration_us for span in spans) / calls


def half(x):
    return x * 0.5


@pytest.mark.parametrize(
    ("timer", "mebibytes"), [*((timer, 20) for timer in TIMERS), ("events", 1), ("graph", 1), ("kernel", 1)]
)
def test_cold_is_slower_than_warm(backend, timer, mebibytes):
    x = torch.randn(mebibytes * MEBIBYTE_ELEMENTS, device=backend.device)
    cold, warm = (run(backend, torch.neg, x, timer=timer, cache=cache) for cache in ("cold", "warm"))
    assert median_us(cold) > 1.05 * median_us(warm)
    assert {timer_kind(one.identity) for one in (cold, warm)} == {timer}


def test_a_graph_reads_what_the_profiler_reads(backend, vector):
    found = run(backend, torch.add, vector, vector, timer="graph", cache="warm")
    reference_us = kernel_us(backend, lambda: torch.add(vector, vector))
    assert median_us(found) == pytest.approx(reference_us, abs=0.9)
    assert found.record.host_us > median_us(found)
    assert found.record.peak_memory_bytes == 4 * 4096
    assert found.record.clock_ghz is not None
    assert "graph of 256 calls" in found.record.notes


def test_graph_and_kernel_agree_with_events_on_a_long_kernel(backend):
    x = torch.randn(64 * MEBIBYTE_ELEMENTS, device=backend.device)
    times = {timer: median_us(run(backend, half, x, timer=timer)) for timer in ("events", "graph", "kernel")}
    assert max(times.values()) < 1.1 * min(times.values()), times


def test_the_kernel_timer_sums_a_calls_kernels_and_copies(backend):
    x = torch.randn(4 * MEBIBYTE_ELEMENTS, device=backend.device)  # so that three buffers stay in the cache

    def two(x):
        return (x * 2.0).exp()

    single = [median_us(run(backend, fn, x, timer="kernel", cache="warm")) for fn in (half, torch.exp)]
    both = median_us(run(backend, two, x, timer="kernel", cache="warm"))
    assert both == pytest.approx(sum(single), rel=0.15)
    copied = run(backend, lambda x: x.clone().zero_(), x, timer="kernel", cache="warm")
    assert median_us(copied) > single[0]


def test_the_kernel_timer_sees_other_streams(backend):
    x = torch.randn(16 * MEBIBYTE_ELEMENTS, device=backend.device)
    side = torch.cuda.Stream()

    def forked(x):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.neg_()
        torch.cuda.current_stream().wait_stream(side)

    forked_us, plain_us = (median_us(run(backend, fn, x, timer="kernel")) for fn in (forked, lambda x: x.neg_()))
    assert forked_us == pytest.approx(plain_us, rel=0.15)


@pytest.mark.parametrize(("mebibytes", "kind"), [(0.016, "graph"), (128, "events")])
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_auto_takes_a_graph_for_what_is_short(backend, mebibytes, kind, cache):
    x = torch.randn(int(mebibytes * MEBIBYTE_ELEMENTS), device=backend.device)
    found = run(backend, torch.add, x, x, cache=cache)
    assert timer_kind(found.identity) == kind, found.record.notes
    assert any(note.startswith(f"timer auto: {kind} (") for note in found.record.notes)


def test_a_short_cold_closure_is_events_by_auto_and_alone_in_a_graph(backend, vector):
    found = run(backend, lambda: vector + vector)
    assert timer_kind(found.identity) == "events"
    assert any("closure variable vector" in note for note in found.record.notes)
    alone = run(backend, lambda: vector + vector, timer="graph")
    assert any(note.startswith("graph of 1 call: ") for note in alone.record.notes)
    assert alone.identity.timer.endswith(", one call a replay")
    assert timer_kind(run(backend, lambda: vector + vector, cache="warm").identity) == "graph"


def test_auto_takes_a_graph_for_what_is_launch_bound(backend):
    x = torch.randn(64 * 1024, device=backend.device)

    def in_a_row(x):
        for _ in range(40):
            x = x + 1
        return x

    found, events = run(backend, in_a_row, x), run(backend, in_a_row, x, timer="events")
    assert timer_kind(found.identity) == "graph", found.record.notes
    assert median_us(found) < median_us(events)


# torch begins by capturing an empty graph of its own, and warns of that.
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_a_function_that_replays_graphs_of_its_own_is_left_to_events_and_goes_on_working(backend):
    compiled = torch.compile(lambda x: (x.sin() + 1).cos() * 2, mode="reduce-overhead")
    x = torch.randn(4096, device=backend.device)
    for _ in range(3):  # compiled, recorded, replayed
        expected = compiled(x).clone()
    found = run(backend, compiled, x)
    assert timer_kind(found.identity) == "events", found.record.notes
    torch.testing.assert_close(compiled(x).clone(), expected)
    assert timer_kind(run(backend, torch.neg, x).identity) == "graph"


def unsynchronised_item(x):
    if torch.cuda.is_current_stream_capturing():
        return (x + x).sum().item()
    return x + x


def broken_by_itself(x):
    if torch.cuda.is_current_stream_capturing():
        raise ZeroDivisionError
    return x + x


def unjoined(x):
    if torch.cuda.is_current_stream_capturing():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            x.neg()
    return x + x


@pytest.mark.parametrize("fn", [unsynchronised_item, broken_by_itself, unjoined], ids=lambda fn: fn.__name__)
def test_a_failed_capture_leaves_device_allocator_and_generator_as_they_were(backend, vector, fn):
    with pytest.raises(GraphUnavailableError, match="cannot be captured"):
        run(backend, fn, vector, timer="graph")
    assert timer_kind(run(backend, fn, vector).identity) == "events"
    assert torch.randn(100, device=backend.device).std().item() > 0.1
    gc.collect()
    kept = torch.cuda.memory_allocated()
    values = [torch.empty(1 << 20, device=backend.device) for _ in range(50)]
    del values
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == kept
    assert timer_kind(run(backend, torch.add, vector, vector, timer="graph").identity) == "graph"
    assert run(backend, torch.nn.functional.dropout, vector, timer="graph", cache="warm").record.mean_us > 0.0


def test_what_waits_is_refused_before_a_capture(backend, vector):
    with pytest.raises(GraphUnavailableError, match="waits for the device"):
        run(backend, lambda x: x.sum().item(), vector, timer="graph")
    assert timer_kind(run(backend, lambda x: x.sum().item(), vector).identity) == "events"


@pytest.mark.parametrize("timer", ["graph", "kernel", "auto"])
def test_no_work_is_refused_and_the_smallest_kernel_is_not(backend, vector, timer):
    with pytest.raises((NoGpuWorkError, GraphUnavailableError)):
        run(backend, lambda x: None, vector, timer=timer)
    assert run(backend, lambda x: x.add_(1.0), vector[:1], timer=timer).record.mean_us > 0.0


def test_a_backward_pass_can_be_captured(backend):
    x = torch.randn(64, 64, device=backend.device, requires_grad=True)
    w = torch.randn(64, 64, device=backend.device, requires_grad=True)

    def both(x, w):
        return torch.autograd.grad((x @ w).relu().sum(), (x, w))

    both(x, w)
    for cache in ("cold", "warm"):
        assert timer_kind(run(backend, both, x, w, timer="graph", cache=cache).identity) == "graph"


def test_memory_is_given_back(backend):
    x = torch.randn(4 * MEBIBYTE_ELEMENTS, device=backend.device)
    run(backend, torch.neg, x, timer="graph")
    backend.release_memory()
    before = torch.cuda.memory_reserved()
    run(backend, torch.neg, x, timer="graph")
    backend.release_memory()
    assert torch.cuda.memory_reserved() <= before
