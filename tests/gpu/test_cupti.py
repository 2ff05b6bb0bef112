"""A profile leaves no trace in what is timed later, however often one is taken, and later profiles read the same."""

from __future__ import annotations

import math
from statistics import mean, median

import pytest

from pytest_gpuperf.measure.cupti import Cupti, detach
from pytest_gpuperf.measure.device_profile import profiled
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.settings import BenchmarkSettings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
KERNELS = 60


@pytest.fixture
def chain():
    x = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)

    def call():
        y = x
        for _ in range(KERNELS):
            y = y + x
        return y

    return call


def time_us(backend, call):
    plan = Plan(benchmark=BenchmarkId(node_id="test"), settings=BenchmarkSettings(timer="graph", max_time=0.1))
    return math.exp(measure(call, plan, backend).record.log_median)


def test_times_before_and_after_profiles_are_alike(backend, chain):
    before = [time_us(backend, chain) for _ in range(4)]
    after = []
    for _ in range(4):
        assert len(profiled(torch, chain, backend.index)) == KERNELS
        assert Cupti.is_attached
        after.append(time_us(backend, chain))
        assert not Cupti.is_attached
    assert mean(after) == pytest.approx(mean(before), rel=0.006), (before, after)


def test_a_profile_reads_the_same_after_cupti_was_let_go(backend):
    x = torch.randn(1 << 26, device="cuda")

    def duration_us():
        return median(span.duration_us for span in profiled(torch, lambda: [x.neg() for _ in range(5)], backend.index))

    first_us = duration_us()
    for _ in range(3):
        detach(torch, backend.index)
        assert duration_us() == pytest.approx(first_us, rel=0.05)


def test_graphs_of_others_go_on_working(backend):
    x = torch.zeros(1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    x.add_(1)
    with torch.cuda.graph(graph):
        x.add_(1)
    for count in range(1, 5):
        profiled(torch, graph.replay, backend.index)
        detach(torch, backend.index)
        graph.replay()
        torch.cuda.synchronize()
        assert x.item() == 1 + 2 * count
