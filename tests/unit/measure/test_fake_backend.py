from __future__ import annotations

import math
import os
from dataclasses import replace

import pytest

from pytest_gpuperf.measure.backends.fake import FakeBackend
from pytest_gpuperf.measure.errors import GraphUnavailableError, TimerUnavailableError
from pytest_gpuperf.measure.measure import measure


def log_median(fake, plan, call_us=12.5):
    return measure(lambda: fake.clock.advance_us(call_us), plan(trials=100), fake).record.log_median


def test_the_same_run_of_the_same_seed_gives_the_same_figures(plan):
    first, second = (log_median(FakeBackend(seed=3, run=5), plan) for _ in range(2))
    assert first == second


def test_runs_differ_by_the_spread_between_runs(plan):
    values = [log_median(FakeBackend(run=run, between_run_sd=0.02, trial_sd=0.0), plan) for run in range(200)]
    mean = sum(values) / len(values)
    sd = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    assert mean == pytest.approx(math.log(12.5), abs=0.01)
    assert sd == pytest.approx(0.02, rel=0.25)


def test_benchmarks_of_one_run_differ_on_their_own(plan):
    fake = FakeBackend(run=1, between_run_sd=0.02, trial_sd=0.0)
    assert len({log_median(fake, plan) for _ in range(5)}) == 5


def test_without_a_run_every_process_is_another(plan):
    fake = FakeBackend(trial_sd=0.0)
    fake.noise()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(fake.noise().random()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert float(os.read(read, 100)) != fake.noise().random()


def test_the_clock_slows_calls_down_by_its_sensitivity(plan):
    times = [
        math.exp(log_median(FakeBackend(run=1, clock_ghz=clock, clock_sensitivity=0.5), plan)) for clock in (1.7, 1.36)
    ]
    assert times[1] / times[0] == pytest.approx((1.7 / 1.36) ** 0.5, rel=0.001)


def test_the_clock_can_go_by_batch(plan):
    fake = FakeBackend(run=1, clock_ghz=lambda batch: 1.4 + 0.1 * (batch % 2))
    found = measure(lambda: fake.clock.advance_us(12.5), plan(trials=100), fake)
    assert set(found.trials.clocks_ghz) == {1.4, 1.5}
    assert len(found.record.batches) == 2


def test_timers_are_named_and_unknown_ones_refused(plan):
    fake = FakeBackend()
    assert fake.timer(plan().settings).describe() == "events, scripted"
    with pytest.raises(TimerUnavailableError, match="kernel"):
        fake.timer(plan_with_timer("kernel"))
    assert fake.timer(plan_with_timer("wall")).describe() == "wall, scripted"


def plan_with_timer(timer):
    from pytest_gpuperf.settings import BenchmarkSettings

    return BenchmarkSettings(timer=timer)


def test_is_a_machine_of_its_own_model():
    assert FakeBackend(model="Fake GPU 2").machine().key == "Fake-GPU-2"
    assert FakeBackend(model="Fake GPU 2").lock_name == "Fake GPU 2"


def chosen(fake, plan, call_us, timer="auto", preferred=None):
    asked = replace(plan(trials=20), settings=plan_with_timer(timer), preferred_timer=preferred)
    return measure(lambda: fake.clock.advance_us(call_us), asked, fake)


def test_a_pilot_can_be_scripted(plan):
    fake = FakeBackend(graph_below_us=10.0)
    short, long = chosen(fake, plan, 5.0), chosen(fake, plan, 50.0)
    assert (short.identity.timer, long.identity.timer) == ("graph, scripted", "events, scripted")
    assert "timer auto: graph" in short.record.notes
    assert chosen(fake, plan, 50.0, preferred="graph").identity.timer == "graph, scripted"
    assert chosen(fake, plan, 5.0, preferred="events").identity.timer == "events, scripted"


def test_a_capture_can_be_scripted_to_fail(plan):
    fake = FakeBackend(graph_below_us=10.0, capturable=False)
    assert chosen(fake, plan, 5.0).identity.timer == "events, scripted"
    assert chosen(fake, plan, 5.0, preferred="graph").identity.timer == "events, scripted"
    with pytest.raises(GraphUnavailableError):
        chosen(fake, plan, 5.0, timer="graph")
