from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy
import pytest

from pytest_gpuperf.measure.notes import LAUNCH_BOUND_NOTE
from pytest_gpuperf.measure.samples import Trials
from pytest_gpuperf.measure.summary import summarise
from pytest_gpuperf.sweep import BenchSweep, checked_sizes, sweep_of

SIZES = [64, 128, 256, 512]
WIGGLE = (0.0, 0.004, -0.004, 0.002, -0.002, 0.001)


def result(time_us, peak_bytes=None, notes=()):
    trials = Trials(times_us=tuple(time_us * math.exp(w) for w in WIGGLE), batch_indices=(0,) * len(WIGGLE))
    record = summarise(trials, peak_memory_bytes=peak_bytes, notes=notes)
    return SimpleNamespace(peak_memory_bytes=peak_bytes, notes=notes, record=record)


def sweep(time_us, *, peak_bytes=lambda _: None, notes=lambda _: (), sizes=SIZES, fit_from=None, binding=True):
    """A sweep whose figures are functions of the size."""
    return sweep_of(
        sizes,
        [result(time_us(size), peak_bytes(size), notes(size)) for size in sizes],
        [{n: math.log(time_us(size)) + WIGGLE[(n + shift) % 6] for n in range(6)} for shift, size in enumerate(sizes)],
        fit_from=fit_from,
        binding=binding,
    )


def test_the_exponent_of_time():
    cubic = sweep(lambda size: 1e-4 * size**3)
    assert cubic.exponent == pytest.approx(3.0, abs=0.01)
    low, high = cubic.interval
    assert 2.9 < low < 3.0 < high < 3.1
    cubic.assert_scaling(3.0, tolerance=0.1)


def test_another_exponent_is_said_to_be_another():
    with pytest.raises(AssertionError, match=r"time goes with size\^3 \[.*\] over 4 sizes, not with size\^\(2 ± 0.1\)"):
        sweep(lambda size: 1e-4 * size**3).assert_scaling(2.0)


def test_an_exponent_that_is_not_known_well_enough_is_said_to_be_that():
    with pytest.raises(AssertionError, match=r"not known well enough to be within 3 ± 0\.0001; more or further sizes"):
        sweep(lambda size: 1e-4 * size**3).assert_scaling(3.0, tolerance=1e-4)


def test_the_whole_interval_has_to_be_within():
    cubic = sweep(lambda size: 1e-4 * size**3)
    reach = cubic.interval[1] - 3.0
    cubic.assert_scaling(3.0, tolerance=2 * reach)
    with pytest.raises(AssertionError, match="not known well enough"):
        cubic.assert_scaling(3.1, tolerance=0.1 - reach / 2)


def test_small_sizes_can_be_left_out_of_the_fit_and_stay_in_the_sweep():
    launched = sweep(lambda size: 300.0 + size, sizes=[1, 2, 4, 10**5, 10**6, 10**7], fit_from=10**5)
    launched.assert_scaling(1.0, tolerance=0.05)
    assert [point.fitted for point in launched.points] == [False] * 3 + [True] * 3
    assert launched.fit_from == 10**5
    assert launched.time_fit.sizes == 3
    assert launched.table().count("not fitted") == 3


def test_launch_bound_sizes_in_the_fit_are_named():
    launched = sweep(lambda size: 300.0 + size, notes=lambda size: (LAUNCH_BOUND_NOTE,) if size < 200 else ())
    with pytest.raises(AssertionError, match="launch-bound or at the timer's floor: 64, 128; leave such sizes out"):
        launched.assert_scaling(1.0)


def test_the_exponent_of_memory():
    square = sweep(lambda size: size, peak_bytes=lambda size: 4 * size * size)
    assert square.memory_exponent == pytest.approx(2.0)
    assert square.memory_interval == pytest.approx((2.0, 2.0))
    square.assert_memory_scaling(2.0, tolerance=0.01)
    with pytest.raises(AssertionError, match=r"peak memory goes with size\^2 .* not with size\^\(1 ± 0.1\)"):
        square.assert_memory_scaling(1.0)


@pytest.mark.parametrize("peak_bytes", [lambda _: None, lambda _: 0, lambda size: size - 64])
def test_memory_that_is_not_known_has_no_exponent(peak_bytes):
    unknown = sweep(lambda size: size, peak_bytes=peak_bytes)
    assert unknown.memory_exponent is unknown.memory_interval is None
    unknown.assert_memory_scaling(7.0)


def test_a_sweep_that_measured_nothing_passes():
    nothing = BenchSweep(sizes=(1, 2), points=(), fit_from=None, time_fit=None, memory_fit=None)
    nothing.assert_scaling(5.0)
    nothing.assert_memory_scaling(5.0)
    assert nothing.exponent is nothing.interval is None
    assert nothing.table() == "not measured (without --gpuperf, each was called once): 1, 2"


def test_a_fresh_process_holds_no_claim():
    sweep(lambda size: size, binding=False).assert_scaling(5.0)


def test_rounds_that_not_all_took_part_in_are_left_out():
    log_times = [{0: 1.0, 1: 1.0, 2: 99.0}, {0: 2.0, 1: 2.0}]
    found = sweep_of([1, 2], [result(3.0), result(7.0)], log_times, fit_from=None, binding=True)
    assert found.exponent == pytest.approx(1.0 / math.log(2.0))


def test_the_table():
    lines = sweep(lambda size: float(size), peak_bytes=lambda size: size * 1024).table().splitlines()
    assert lines[0].split() == ["size", "mean", "±", "memory", "exponent"]
    assert lines[3].split() == ["128", "128.0", "us", "0.3", "%", "128", "KiB", "1.00"]
    assert lines[-2].startswith("time ~ size^1.000 [0.9")
    assert lines[-1] == "peak memory ~ size^1.000 [1.000, 1.000], 4 sizes"


@pytest.mark.parametrize("arguments", [(math.nan, 0.1), (1.0, 0.0), (1.0, -1.0), (1.0, math.inf), (math.inf, 0.1)])
def test_impossible_claims(arguments):
    exponent, tolerance = arguments
    with pytest.raises(ValueError, match="exponent must be a finite number and tolerance a positive one"):
        sweep(lambda size: size).assert_scaling(exponent, tolerance=tolerance)


@pytest.mark.parametrize(
    ("sizes", "fit_from", "message"),
    [
        ([1], None, "an exponent needs two sizes"),
        ([], None, "an exponent needs two sizes"),
        ([1, 2, 3], 3, "an exponent needs two sizes of at least 3"),
        ([1, 2, 1], None, "every size must be given once"),
        ([1, 1.0], None, "every size must be given once"),
        ([1, 0], None, "sizes must be positive numbers, not 0"),
        ([1, True], None, "sizes must be positive numbers, not True"),
        ([1, math.inf], None, "sizes must be positive numbers, not inf"),
        ([1, "2"], None, "sizes must be positive numbers, not '2'"),
        ("12", None, "sizes must be positive numbers, not '1'"),
        ([1, 10**400], None, "sizes must be positive numbers, not 1000"),
        ([1, 10**5000], None, "sizes must be positive numbers, not a value of type int"),
        ([1, (2, 3)], None, r"sizes must be positive numbers, not \(2, 3\)"),
        ([1, numpy.bool_(True)], None, "sizes must be positive numbers, not np.True_"),
        ([1, 2], "1", "fit_from must be a size, not '1'"),
        ([1, 2], math.nan, "fit_from must be a size, not nan"),
    ],
)
def test_impossible_sizes(sizes, fit_from, message):
    with pytest.raises(ValueError, match=message):
        checked_sizes(sizes, fit_from)


@pytest.mark.parametrize("sizes", [None, 1000, abs])
def test_what_are_no_sizes_at_all(sizes):
    with pytest.raises(TypeError, match=r"sizes must be several positive numbers, such as \[256, 512, 1024\], not"):
        checked_sizes(sizes, None)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([64, 128.0], (64, 128.0)),
        ((2**k for k in range(1, 4)), (2, 4, 8)),
        (range(10, 40, 10), (10, 20, 30)),
        (2 ** numpy.arange(10, 13), (1024, 2048, 4096)),
        (numpy.geomspace(10, 1000, 3), (10.0, 100.0, 1000.0)),
        ([numpy.int32(3), numpy.float32(4.5), Fraction(11, 2)], (3, 4.5, 5.5)),
    ],
)
def test_sizes_of_any_kind_become_pythons_own_numbers(sizes, expected):
    found = checked_sizes(sizes, None)
    assert found == pytest.approx(expected)
    assert [type(size) for size in found] == [type(size) for size in expected]
