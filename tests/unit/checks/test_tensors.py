"""Copies that differ from a tensor in its last bit, and outputs that differ."""

from __future__ import annotations

import math

import pytest

from pytest_gpuperf.checks.tensors import MOST_ITEMS, bits, differs_grossly, nudged, shrunk, tensors_in
from pytest_gpuperf.measure.tensors import mapped

torch = pytest.importorskip("torch")
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.float8_e4m3fn]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (4, 6)])
def test_one_bit_of_one_element_differs(dtype, shape):
    tensor = (torch.arange(math.prod(shape)).reshape(shape) + 1.5).to(dtype)
    changed = bits(tensor, torch) ^ bits(nudged(tensor, torch), torch)
    assert changed.sum() == 1
    assert torch.allclose(nudged(tensor, torch).to(torch.complex128), tensor.to(torch.complex128), rtol=0.1)


def test_long_containers_are_left_alone():
    one = torch.ones(1)
    fits, long = [one] * MOST_ITEMS, [one] * (MOST_ITEMS + 1)
    assert len(list(tensors_in(fits, torch))) == MOST_ITEMS
    assert list(tensors_in({"all": long}, torch)) == []
    assert mapped(fits, torch.zeros_like, torch, most_items=MOST_ITEMS)[-1] == 0
    assert mapped((long, one), torch.zeros_like, torch, most_items=MOST_ITEMS) == (long, torch.zeros(1))


def test_it_is_a_finite_element_that_differs():
    tensor = torch.tensor([math.nan, math.inf, 2.0])
    assert torch.equal(nudged(tensor, torch)[:2].isnan(), torch.tensor([True, False]))
    assert 2.0 < nudged(tensor, torch)[2] < 2.0001


def test_strides_and_emptiness_are_kept():
    for tensor in (torch.rand(4, 6).t(), torch.rand(1, 6).expand(4, 6), torch.rand(0, 3)):
        copied = nudged(tensor, torch)
        assert (copied.shape, copied.stride()) == (tensor.shape, tensor.stride())


@pytest.mark.parametrize("scale", [1.0, 1e-8])
def test_small_outputs_differ_as_large_ones_do(scale):
    values = torch.linspace(1.0, 2.0, 100, dtype=torch.float64) * scale
    assert differs_grossly(values, values * 1.1, torch)
    assert not differs_grossly(values, values * 1.001, torch)


def test_outputs_next_to_nothing_do_not():
    values = torch.linspace(1.0, 2.0, 100, dtype=torch.float64) * 1e-15
    assert not differs_grossly(values, -values, torch)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_copy_a_little_nearer_to_zero(dtype):
    tensor = torch.linspace(-2.0, 2.0, 9).to(dtype)
    copied = shrunk(tensor, torch)
    assert copied.data_ptr() != tensor.data_ptr()
    assert torch.allclose(copied.to(torch.complex128), tensor.to(torch.complex128), rtol=0.02)
    assert torch.equal(copied, tensor) is (tensor.element_size() == 1)
