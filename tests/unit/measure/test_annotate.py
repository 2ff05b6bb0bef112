from __future__ import annotations

from contextlib import contextmanager

from pytest_gpuperf.measure.backends.fake import FakeBackend
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan


def test_phases_are_marked_in_order_and_closed():
    seen = []

    @contextmanager
    def annotate(name):
        seen.append(name)
        yield
        seen.append(f"/{name}")

    backend = FakeBackend()
    plan = Plan(benchmark=BenchmarkId(node_id="test"), annotate=annotate)
    measure(lambda: backend.clock.advance_us(10.0), plan, backend)
    assert seen == ["prepare", "/prepare", "warm-up", "/warm-up", "trials", "/trials"]
