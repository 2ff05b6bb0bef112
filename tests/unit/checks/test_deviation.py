from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_gpuperf.checks.deviation import deviation

torch = pytest.importorskip("torch")

MAKERS = [
    pytest.param(lambda *v: torch.tensor(v, dtype=torch.float32), id="torch"),
    pytest.param(lambda *v: np.array(v, dtype=np.float32), id="numpy"),
    pytest.param(lambda *v: list(v), id="floats"),
]


@pytest.mark.parametrize("make", MAKERS)
def test_the_largest_difference_over_the_largest_magnitude(make):
    assert deviation(make(1.0, 2.5, -4.0), make(1.0, 2.0, -4.0)) == pytest.approx(0.125)


@pytest.mark.parametrize("make", MAKERS)
def test_equal_outputs_deviate_by_nothing(make):
    values = make(1.0, math.nan, math.inf, -math.inf)
    assert deviation(values, values) == 0.0


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_and_should_be_deviates_without_limit(make, wrong):
    assert deviation(make(1.0, wrong), make(1.0, 2.0)) == math.inf
    assert deviation(make(1.0, 2.0), make(1.0, wrong)) == math.inf


@pytest.mark.parametrize("make", MAKERS)
def test_a_reference_of_zeros_leaves_the_difference_itself(make):
    assert deviation(make(0.0, 1e-3), make(0.0, 0.0)) == pytest.approx(1e-3)


def test_containers_are_taken_together():
    output = {"a": torch.tensor([1.1]), "b": (np.array([10.0]), 3, "text")}
    expected = {"a": torch.tensor([1.0]), "b": (np.array([10.0]), 3, "text")}
    assert deviation(output, expected) == pytest.approx(0.01)


def test_half_precision_is_compared_in_double():
    expected = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    assert deviation(expected + 2**-6, expected) == pytest.approx(2**-7)


def test_complex_values():
    assert deviation(torch.tensor([3 + 4j]), torch.tensor([3 + 0j])) == pytest.approx(4 / 3)
    assert deviation(3 + 4j, 3 + 0j) == pytest.approx(4 / 3)


def test_gradients_do_not_matter():
    assert deviation(torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)) == 0.0


@pytest.mark.parametrize("value", ["text", 3, None, (), torch.tensor([1, 2]), torch.tensor([]), np.array([1])])
def test_without_floats_there_is_nothing_to_tell(value):
    assert deviation(value, value) is None
