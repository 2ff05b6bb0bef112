from __future__ import annotations

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.measure.roofline import (
    arithmetic_intensity,
    critical_batch,
    decode_attention_intensity,
    least_time_us,
    ridge_point,
)

H100 = (989e12, 3.35e12)
"""SXM: dense bf16 and HBM3, by the data sheet (1,979 TFLOP/s there is with sparsity)."""
A100 = (312e12, 2.039e12)
"""SXM 80 GB."""

amounts = st.floats(1e-3, 1e18)


@pytest.mark.parametrize(("device", "ridge"), [(H100, 295), (A100, 153)])
def test_the_ridge_of_known_devices(device, ridge):
    assert ridge_point(*device) == pytest.approx(ridge, abs=0.5)


def test_the_sparse_peak_doubles_the_ridge_wrongly():
    assert ridge_point(1979e12, H100[1]) == pytest.approx(591, abs=1)


def test_the_critical_batch_in_16_bits_is_the_ridge_and_8_bit_weights_halve_it():
    assert critical_batch(*H100) == pytest.approx(ridge_point(*H100))
    assert critical_batch(*H100, weight_bytes=1) == pytest.approx(295 / 2, abs=0.5)


@pytest.mark.parametrize(("heads", "intensity"), [((32, 32), 1.0), ((64, 8), 8.0), ((32, 1), 32.0)])
def test_decoding_has_as_many_operations_a_byte_as_query_heads_a_key(heads, intensity):
    assert decode_attention_intensity(*heads) == intensity


def test_decoding_counted_out():
    query_heads, kv_heads, positions, width = 64, 8, 1000, 128
    operations = query_heads * (2 * positions * width + 2 * positions * width)
    cache_bytes = 2 * kv_heads * positions * width * 1
    counted = arithmetic_intensity(operations, cache_bytes)
    assert decode_attention_intensity(query_heads, kv_heads, value_bytes=1) == counted == 16


def test_a_batch_at_the_critical_size_takes_equally_long_either_way():
    flops_per_s, bytes_per_s = A100
    weights = 4096 * 4096
    tokens = critical_batch(flops_per_s, bytes_per_s, weight_bytes=2)
    assert 2 * tokens * weights / flops_per_s == pytest.approx(2 * weights / bytes_per_s)


@given(amounts, amounts, amounts, amounts)
def test_the_least_time_is_the_longer_of_both_and_the_ridge_tells_which(flops, flops_per_s, bytes_moved, bytes_per_s):
    both = least_time_us(flops=flops, flops_per_s=flops_per_s, bytes_moved=bytes_moved, bytes_per_s=bytes_per_s)
    compute = least_time_us(flops=flops, flops_per_s=flops_per_s)
    memory = least_time_us(bytes_moved=bytes_moved, bytes_per_s=bytes_per_s)
    assert both == max(compute, memory)
    intensity, ridge = arithmetic_intensity(flops, bytes_moved), ridge_point(flops_per_s, bytes_per_s)
    if not math.isclose(intensity, ridge, rel_tol=1e-9):
        assert (intensity > ridge) == (compute > memory)


def test_half_a_pair_counts_for_nothing():
    assert least_time_us(flops=1e12) == 0.0
    assert least_time_us(bytes_moved=4e6, bytes_per_s=4e12) == 1.0


HELPERS = {
    "intensity, flops": lambda wrong: arithmetic_intensity(wrong, 1),
    "intensity, bytes": lambda wrong: arithmetic_intensity(1, wrong),
    "ridge, flops": lambda wrong: ridge_point(wrong, 1),
    "ridge, bytes": lambda wrong: ridge_point(1, wrong),
    "batch, flops": lambda wrong: critical_batch(wrong, 1),
    "batch, bytes": lambda wrong: critical_batch(1, wrong),
    "batch, weights": lambda wrong: critical_batch(1, 1, weight_bytes=wrong),
    "decoding, query heads": lambda wrong: decode_attention_intensity(wrong, 1),
    "decoding, key heads": lambda wrong: decode_attention_intensity(1, wrong),
    "decoding, bytes": lambda wrong: decode_attention_intensity(1, 1, value_bytes=wrong),
    "time, rate of flops": lambda wrong: least_time_us(flops=1, flops_per_s=wrong),
    "time, rate of bytes": lambda wrong: least_time_us(bytes_moved=1, bytes_per_s=wrong),
    "time, rate alone": lambda wrong: least_time_us(flops_per_s=wrong),
}


@pytest.mark.parametrize("wrong", [0, -1, math.inf, math.nan, "3", 1j, True, [1], 10**400], ids=range(9))
@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
def test_what_is_no_positive_number_is_refused(helper, wrong):
    with pytest.raises(ValueError, match="must be a positive number, not "):
        helper(wrong)


@pytest.mark.parametrize("amount", ["flops", "bytes_moved"])
def test_an_amount_may_be_zero_and_nothing_less(amount):
    rate = {"flops": "flops_per_s", "bytes_moved": "bytes_per_s"}[amount]
    assert least_time_us(**{amount: 0, rate: 1e12}) == 0.0
    for wrong in (-1, math.nan, math.inf, "3", True):
        for rates in ({}, {rate: 1e12}):
            with pytest.raises(ValueError, match=f"{amount} must be a number from 0, not "):
                least_time_us(**{amount: wrong}, **rates)


def test_numbers_of_numpy_are_numbers():
    assert arithmetic_intensity(numpy.int64(6), numpy.float32(2)) == 3.0
    assert least_time_us(bytes_moved=numpy.int64(4_000_000), bytes_per_s=numpy.float64(4e12)) == 1.0


def test_the_helpers_are_public():
    import pytest_gpuperf

    assert pytest_gpuperf.ridge_point is ridge_point
    assert pytest_gpuperf.critical_batch is critical_batch
