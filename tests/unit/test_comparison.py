from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.comparison import BenchComparison
from pytest_gpuperf.measure.samples import Trials
from pytest_gpuperf.measure.summary import summarise

WIGGLE = (0.0, 0.001, -0.001, 0.002, -0.002, 0.001, 0.0, -0.001, 0.0, 0.002, -0.002, 0.0)


def result(time_us, peak_bytes=None, notes=()):
    trials = Trials(times_us=tuple(time_us * math.exp(w) for w in WIGGLE), batch_indices=(0,) * len(WIGGLE))
    record = summarise(trials, peak_memory_bytes=peak_bytes, notes=notes)
    return SimpleNamespace(mean_us=record.mean_us, peak_memory_bytes=peak_bytes, notes=notes, record=record)


def comparison(binding=True, **figures):
    """Each figure is (time in us, peak bytes, error)."""
    shifts = range(len(figures))
    return BenchComparison(
        names=tuple(figures),
        results={name: result(time_us, peak_bytes) for name, (time_us, peak_bytes, _) in figures.items()},
        errors={name: error for name, (_, _, error) in figures.items()},
        log_times={
            name: {n: math.log(time_us) + w for n, w in enumerate(WIGGLE[shift:] + WIGGLE[:shift])}
            for shift, (name, (time_us, _, _)) in zip(shifts, figures.items(), strict=True)
        },
        binding=binding,
    )


def plain(*names):
    return BenchComparison(names=names, results={}, errors=dict.fromkeys(names), log_times={})


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain("a").names = ()


def test_the_ratio_is_of_times():
    ratio = comparison(torch=(60.0, None, None), triton=(40.0, None, None)).ratio("triton", to="torch")
    assert ratio.ratio == pytest.approx(2 / 3, rel=1e-3)
    assert 0.66 < ratio.low < ratio.high < 0.67


def test_a_claim_is_held_to_the_intervals_end():
    two = comparison(torch=(60.0, None, None), triton=(40.0, None, None))
    high = two.ratio("triton", to="torch").high
    two.assert_faster("triton", than="torch", by=1 / high - 1e-6)
    with pytest.raises(AssertionError, match="the rounds differ too much to tell"):
        two.assert_faster("triton", than="torch", by=1 / high + 1e-6)


def test_the_message_has_the_figures():
    two = comparison(torch=(60.0, None, None), triton=(50.0, None, None))
    with pytest.raises(AssertionError) as caught:
        two.assert_faster("triton", than="torch", by=1.5)
    assert str(caught.value) == (
        "triton is not shown to be 1.5 times as fast as torch: it is 1.2 times as fast [1.2, 1.2] "
        "(95 % interval of 12 rounds), 50.00 us against 60.00 us"
    )


def test_what_is_slower_is_said_to_be_not_faster():
    two = comparison(torch=(40.0, None, None), triton=(50.0, None, None))
    with pytest.raises(AssertionError, match=r"triton is not shown to be faster than torch: it is 0\.8 times as fast"):
        two.assert_faster("triton", than="torch")


def test_notes_on_the_results_are_told_with_a_failure():
    two = comparison(torch=(40.0, None, None), triton=(50.0, None, None))
    noted = dataclasses.replace(two, results={**two.results, "torch": result(40.0, notes=("unstable: throttled",))})
    with pytest.raises(AssertionError, match="\ntorch: unstable: throttled"):
        noted.assert_faster("triton", than="torch")


@pytest.mark.parametrize("by", [0.5, 1.0, 1.01])
def test_nothing_is_faster_than_itself(by):
    for nothing_or_two in (comparison(torch=(40.0, None, None), triton=(50.0, None, None)), plain("torch", "triton")):
        with pytest.raises(ValueError, match="torch cannot be faster than itself: name two implementations"):
            nothing_or_two.assert_faster("torch", than="torch", by=by)


@pytest.mark.parametrize("by", [1, 1.2, numpy.float32(1.2), numpy.int64(1), Fraction(6, 5)])
def test_a_factor_may_be_any_number(by):
    comparison(torch=(60.0, None, None), triton=(40.0, None, None)).assert_faster("triton", than="torch", by=by)


@pytest.mark.parametrize("by", [0, -1, math.inf, True, "2", None, 10**400, numpy.bool_(True)])
def test_impossible_factors(by):
    with pytest.raises(ValueError, match="by must be a positive number, not "):
        comparison(torch=(60.0, None, None), triton=(40.0, None, None)).assert_faster("triton", than="torch", by=by)


def test_without_times_a_claim_passes_but_must_make_sense():
    nothing = plain("torch", "triton")
    nothing.assert_faster("triton", than="torch", by=100)
    assert nothing.ratio("triton", to="torch") is None
    assert nothing.pareto() == ("torch", "triton")
    with pytest.raises(ValueError, match="no implementation 'tritn' was compared; there are torch, triton"):
        nothing.assert_faster("tritn", than="torch")
    with pytest.raises(ValueError, match="by must be a positive number"):
        nothing.assert_faster("triton", than="torch", by=math.nan)


def test_a_fresh_process_holds_no_claim():
    two = comparison(binding=False, torch=(40.0, None, None), triton=(50.0, None, None))
    two.assert_faster("triton", than="torch")


def test_the_front_weighs_time_memory_and_error():
    all_three = comparison(
        fast=(10.0, 900, 1e-3), lean=(50.0, 100, 1e-3), exact=(50.0, 900, 1e-7), bad=(50.0, 900, 1e-3)
    )
    assert all_three.pareto() == ("fast", "lean", "exact")


def test_an_axis_that_is_not_known_of_all_is_left_out():
    assert comparison(one=(10.0, None, 1e-3), other=(50.0, 100, None)).pareto() == ("one",)


def test_times_that_cannot_be_told_apart_count_as_equal():
    assert comparison(lean=(50.01, 100, None), large=(50.0, 900, None)).pareto() == ("lean",)


def test_an_error_that_is_not_a_number_is_the_worst():
    assert comparison(wrong=(50.0, None, math.nan), right=(50.0, None, 1e9)).pareto() == ("right",)


figures = st.tuples(
    st.sampled_from([10.0, 10.001, 12.0, 20.0]), st.sampled_from([0, 5, 9]), st.sampled_from([0.0, 1.0])
)


@given(st.lists(figures, min_size=2, max_size=6))
def test_the_front_is_never_empty_and_holds_the_surely_fastest(found):
    many = comparison(**{f"number{n}": figure for n, figure in enumerate(found)})
    front = many.pareto()
    assert front
    for name in many.names:
        others = [other for other in many.names if other != name]
        if all(many.ratio(name, to=other).high < 1.0 for other in others):
            assert name in front


def test_the_table_stars_the_front_and_leaves_out_empty_columns():
    lines = comparison(torch=(60.0, None, 1e-7), triton=(40.0, None, 2e-7)).table().splitlines()
    assert lines[0].split() == ["mean", "±", "vs", "torch", "error"]
    assert lines[2].split() == ["torch", "60.00", "us", "0.1", "%", "1e-07", "*"]
    assert lines[3].startswith("triton")
    assert "-33.3 % [-33.4, -33.2]" in lines[3]
    assert lines[3].endswith("*")


def test_the_table_can_be_relative_to_another():
    table = comparison(torch=(60.0, 1024, None), triton=(40.0, 2048, None)).table(to="triton")
    assert "vs triton" in table
    assert "+50.0 %" in table
    assert "2.00 KiB" in table


def test_the_table_says_that_nothing_was_measured():
    assert plain("torch", "triton").table() == "not measured (without --gpuperf, each was called once): torch, triton"


@pytest.mark.parametrize("name", ["two\nlines", "tab\there", "\x1b[31mred", "\ud800"])
@pytest.mark.parametrize("measured", [True, False])
def test_a_table_stays_in_its_lines_whatever_the_names(name, measured):
    figures = {name: (40.0, None, None), "b": (50.0, None, None)}
    text = (comparison(**figures) if measured else plain(*figures)).table()
    assert len(text.splitlines()) == (4 if measured else 1)
    assert all(character.isprintable() for line in text.splitlines() for character in line)
