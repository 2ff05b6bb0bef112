"""What settings take: numbers of any kind, and what they say of everything else."""

from __future__ import annotations

import threading

import numpy
import pytest

from pytest_gpuperf.settings import PER_BENCHMARK, PER_SESSION, share


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("warmup", numpy.int64(5), 5),
        ("trials", numpy.int32(20), 20),
        ("max_time", numpy.float32(0.5), 0.5),
        ("max_time", numpy.int64(2), 2.0),
        ("min_effect", numpy.float64(0.25), 0.25),
        ("min_speed_of_light", numpy.float32(0.75), 0.75),
    ],
)
def test_numbers_of_numpy_are_taken_as_pythons_own(name, raw, value):
    parsed = PER_BENCHMARK[name].parse(raw)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("name", ["warmup", "trials", "max_time", "min_effect", "alpha", "max_kernels"])
@pytest.mark.parametrize("raw", [10**400, -(10**5000), "9" * 5000, numpy.bool_(True), [1]], ids=range(5))
def test_what_is_no_number_or_far_too_large(name, raw):
    with pytest.raises(ValueError, match=r"^must be "):
        PER_BENCHMARK[name].parse(raw)


@pytest.mark.parametrize(
    ("raw", "hint"),
    [(3, "; for 3 % write 0.03"), ("3", "; for 3 % write 0.03"), ("150%", ""), (150, ""), (-0.1, ""), ("-1%", "")],
)
def test_who_forgets_the_percent_sign_is_told_what_to_write(raw, hint):
    with pytest.raises(ValueError, match="must be a share") as caught:
        share(raw)
    assert str(caught.value) == f"must be a share of at least 0 and below 1{hint}"


DURATIONS = {
    name: setting for name, setting in {**PER_BENCHMARK, **PER_SESSION}.items() if name.endswith(("_time", "_timeout"))
}


def test_all_durations_are_known():
    assert set(DURATIONS) == {"max_time", "confirm_time", "fresh_timeout", "hang_timeout"}


@pytest.mark.parametrize("name", DURATIONS)
def test_durations_can_be_waited_for(name):
    parse = DURATIONS[name].parse
    assert parse("1e8") == 1e8 < threading.TIMEOUT_MAX
    assert parse(1e-9) == 1e-9
    for wrong in (-1e-9, "-1", 1.1e8, 1e300, "inf", "nan"):
        with pytest.raises(ValueError, match=r"^must be a (number of seconds|finite number)"):
            parse(wrong)
    if name == "confirm_time":
        assert parse(0) == 0
    else:
        with pytest.raises(ValueError, match="must be a number of seconds above 0"):
            parse(0)
