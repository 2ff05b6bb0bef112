"""The rank guard: exact levels by brute force, and its kinship with Mann and Whitney."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_gpuperf.compare import ranks
from pytest_gpuperf.compare.ranks import most_lost, rank_p, smallest_p

VALUES = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=9)


def capped_loss(new: set[int], count: int) -> int:
    cap = most_lost(len(new))
    return sum(min(cap, sum(n < b for n in new)) for b in range(count) if b not in new)


@pytest.mark.parametrize(("new_count", "baseline_count"), [(1, 4), (3, 3), (4, 6), (5, 5), (6, 4)])
def test_the_null_distribution_is_that_of_all_orders(new_count: int, baseline_count: int) -> None:
    count = new_count + baseline_count
    losses = [capped_loss(set(new), count) for new in combinations(range(count), new_count)]
    for loss, share in enumerate(ranks._null_distribution(new_count, baseline_count)):
        assert share == pytest.approx(sum(u <= loss for u in losses) / len(losses))


@pytest.mark.parametrize(("new_count", "baseline_count"), [(8, 10), (5, 12), (8, 40)])
def test_few_losses_are_as_rare_as_mann_and_whitney_say(new_count: int, baseline_count: int) -> None:
    baseline = [float(i) for i in range(baseline_count)]
    clear = [baseline_count + i for i in range(new_count)]
    for new in (clear, [*clear[1:], baseline_count - 1.5], [*clear[1:], baseline_count - 2.5]):
        exact = stats.mannwhitneyu(new, baseline, alternative="greater", method="exact").pvalue
        assert rank_p(new, baseline) == pytest.approx(exact)


def test_one_disturbed_baseline_run_does_not_blind_the_guard() -> None:
    baseline = [*[float(i) for i in range(9)], 1000.0]
    new = [20.0 + i for i in range(8)]
    assert stats.mannwhitneyu(new, baseline, alternative="greater", method="exact").pvalue > 1e-3
    assert rank_p(new, baseline) <= 1e-3
    assert rank_p(new, [*baseline[:8], 999.0, 1000.0]) > 1e-3, "two are more than bad luck"


def test_full_separation_gives_the_smallest_p() -> None:
    assert rank_p([3.0, 4.0], [1.0, 2.0]) == smallest_p(2, 2) == pytest.approx(1 / 6)
    assert smallest_p(10, 8) == pytest.approx(1 / 43758)
    assert smallest_p(5, 5) > 1e-3, "so that five runs against five cannot fail"


def test_nothing_slower_gives_one() -> None:
    assert rank_p([1.0, 2.0], [3.0, 4.0, 5.0]) == pytest.approx(1.0)


def test_ties_count_against_the_alternative() -> None:
    assert rank_p([2.0, 2.0], [2.0, 2.0]) == pytest.approx(1.0)
    assert rank_p([2.0, 3.0], [1.0, 2.0]) > rank_p([2.5, 3.0], [1.0, 2.0])


def test_large_samples_use_the_normal_approximation_nearby() -> None:
    baseline = [float(i % 97) for i in range(150)]
    new = [float(i % 97) + 6.5 for i in range(150)]
    exact = stats.mannwhitneyu(new, baseline, alternative="greater").pvalue
    assert rank_p(new, baseline) == pytest.approx(exact, rel=0.2)


@given(VALUES, VALUES)
def test_always_a_probability(new: list[float], baseline: list[float]) -> None:
    assert 0.0 < rank_p(new, baseline) <= 1.0 + 1e-12


@given(VALUES, VALUES, st.randoms())
def test_the_order_of_runs_does_not_matter(new: list[float], baseline: list[float], shuffler: object) -> None:
    before = rank_p(new, baseline)
    shuffler.shuffle(new)
    shuffler.shuffle(baseline)
    assert rank_p(new, baseline) == before


@given(VALUES, VALUES, st.integers(0, 20))
def test_slower_is_never_less_certain(new: list[float], baseline: list[float], more: int) -> None:
    assert rank_p([x + more for x in new], baseline) <= rank_p(new, baseline)
