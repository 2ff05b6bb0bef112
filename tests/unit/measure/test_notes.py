from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.notes import AT_FLOOR_NOTE, LAUNCH_BOUND_NOTE, result_notes, told_us
from pytest_gpuperf.measure.samples import Trials


def notes(time_us, *, host_us=None, floor_us=1.3, unqueued=False):
    trials = Trials(times_us=(time_us,) * 5, batch_indices=(0,) * 5, host_us=() if host_us is None else (host_us,) * 5)
    return result_notes(trials, SimpleNamespace(floor_us=floor_us), unqueued=unqueued)


def test_a_long_call_needs_no_note():
    assert notes(100.0, host_us=8.0) == ()


def test_the_floor_is_stated_where_it_matters():
    assert notes(4.0) == ("short for this timer, which reads 1.3 us around nothing",)


@pytest.mark.parametrize("time_us", [1.0, 1.3, 1.6])
def test_a_time_at_the_floor_says_that_it_tells_nothing(time_us):
    assert notes(time_us) == (AT_FLOOR_NOTE,)


@pytest.mark.parametrize(
    ("host_us", "unqueued", "expected"), [(200.0, False, True), (200.0, True, False), (50.0, False, False)]
)
def test_launch_bound_means_that_dispatch_takes_longer_than_the_device(host_us, unqueued, expected):
    assert (LAUNCH_BOUND_NOTE in notes(100.0, host_us=host_us, unqueued=unqueued)) is expected


@pytest.mark.parametrize(
    ("time_us", "told"),
    [
        (0.0051, "0.0051 us"),
        (1.34, "1.3 us"),
        (58.7, "59 us"),
        (99.4, "99 us"),
        (99.6, "100 us"),
        (12345.6, "12346 us"),
    ],
)
def test_times_are_told_without_an_exponent(time_us, told):
    assert told_us(time_us) == told
