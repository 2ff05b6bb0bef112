from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure import host_clock
from pytest_gpuperf.measure.host_clock import ClockStandsStillError, check_clock_runs
from pytest_gpuperf.measure.interleaved import measure_interleaved
from pytest_gpuperf.measure.measure import measure


@pytest.fixture
def clock(monkeypatch):
    def set_to(readings):
        monkeypatch.setattr(host_clock, "time", SimpleNamespace(perf_counter_ns=lambda: next(readings)))

    return set_to


STOPPED = {"stopped": lambda: itertools.repeat(10**18), "backwards": lambda: itertools.count(10**18, -1)}


@pytest.mark.parametrize("readings", STOPPED.values(), ids=STOPPED)
def test_a_clock_that_does_not_go_forward_times_nothing(clock, readings, fake, plan):
    clock(readings())
    called = []
    for measured in (
        check_clock_runs,
        lambda: measure(lambda: called.append(1), plan(), fake),
        lambda: measure_interleaved([(lambda: called.append(1), plan())] * 2, fake),
    ):
        with pytest.raises(ClockStandsStillError, match=r"perf_counter_ns\(\) does not go forward.*freezegun"):
            measured()
    assert not called


def test_a_clock_of_coarse_steps_runs(clock):
    clock(itertools.chain([5] * 1000, itertools.repeat(6)))
    check_clock_runs()


def test_the_hosts_own_clock_runs():
    check_clock_runs()
