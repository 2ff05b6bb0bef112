from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.compare.pareto import dominates, pareto_front

points = st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=12)


def axis(place):
    return lambda one, other: one[place] - other[place]


AXES = [axis(0), axis(1), axis(2)]


def test_what_is_worse_in_something_and_better_in_nothing_is_left_out():
    fast, lean, neither = (1, 9, 0), (9, 1, 0), (9, 9, 0)
    assert pareto_front([neither, fast, lean], AXES) == (fast, lean)


def test_equals_do_not_dominate_each_other():
    assert pareto_front([(1, 1, 1), (1, 1, 1)], AXES) == ((1, 1, 1), (1, 1, 1))


def test_without_axes_nothing_is_left_out():
    assert pareto_front(["a", "b"], []) == ("a", "b")


@given(points)
def test_the_front_is_what_no_point_dominates_and_dominates_the_rest(points):
    front = pareto_front(points, AXES)
    assert front
    assert not any(dominates(one, other, AXES) for one in points for other in front)
    assert all(any(dominates(one, other, AXES) for one in front) for other in points if other not in front)


@given(points, st.randoms(use_true_random=False))
def test_the_front_does_not_depend_on_the_order(points, source):
    shuffled = source.sample(points, len(points))
    assert sorted(pareto_front(points, AXES)) == sorted(pareto_front(shuffled, AXES))


@given(points)
def test_the_best_on_an_axis_is_on_the_front(points):
    assert min(points) in pareto_front(points, AXES)
