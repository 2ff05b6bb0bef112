"""The readable recurrence: the bugs it is known for, each with a test that sees it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from example_kernels.softmax import online_softmax, online_softmax_weighted_sum

INFINITY = float("inf")
tiles = st.integers(1, 50)
some = settings(max_examples=50, deadline=None)


def scores_of(rows: int, columns: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


@some
@given(st.integers(1, 6), st.integers(1, 45), tiles, st.integers(0, 99), st.sampled_from([1.0, 30.0, 1e4]))
def test_online_softmax_is_softmax_whatever_the_tile(rows, columns, tile, seed, scale):
    x = scores_of(rows, columns, seed, scale)
    torch.testing.assert_close(online_softmax(x, tile), torch.softmax(x, -1), rtol=1e-12, atol=1e-15)


@some
@given(st.integers(1, 6), st.integers(1, 45), tiles, st.integers(0, 99), st.sampled_from([1.0, 30.0, 1e4]))
def test_weighted_sum_is_attention_whatever_the_tile(rows, columns, tile, seed, scale):
    scores, values = scores_of(rows, columns, seed, scale), scores_of(columns, 3, seed + 1)
    expected = torch.softmax(scores, -1) @ values
    torch.testing.assert_close(online_softmax_weighted_sum(scores, values, tile), expected, rtol=1e-12, atol=1e-12)


def test_sums_are_rescaled_when_a_later_tile_holds_the_maximum():
    x = torch.tensor([[0.0, 0.0, 5.0, 9.0]])
    torch.testing.assert_close(online_softmax(x, tile=1), torch.softmax(x, -1))


def test_the_maximum_does_not_start_at_zero():
    x = torch.full((1, 4), -2000.0)
    torch.testing.assert_close(online_softmax(x, tile=2), torch.full((1, 4), 0.25))


@pytest.mark.parametrize("masked", [slice(0, 2), slice(2, 4), slice(4, 6)])
def test_a_masked_tile_leaves_the_others_alone(masked):
    x = torch.randn(3, 6)
    x[:, masked] = -INFINITY
    torch.testing.assert_close(online_softmax(x, tile=2), torch.softmax(x, -1))
    assert not online_softmax_weighted_sum(x, torch.randn(6, 4), tile=2).isnan().any()


def test_a_fully_masked_row_attends_to_nothing():
    scores = torch.randn(2, 6)
    scores[0] = -INFINITY
    result = online_softmax_weighted_sum(scores, torch.ones(6, 4), tile=4)
    torch.testing.assert_close(result, torch.tensor([[0.0] * 4, [1.0] * 4]))
    assert online_softmax(scores, tile=4)[0].isnan().all()


def test_large_logits_do_not_overflow():
    x = torch.tensor([[1e30, 1e30, -1e30]])
    torch.testing.assert_close(online_softmax(x, tile=1), torch.tensor([[0.5, 0.5, 0.0]]))


def test_leading_dimensions_are_batched():
    scores, values = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 7, 4)
    expected = torch.softmax(scores, -1) @ values
    torch.testing.assert_close(online_softmax_weighted_sum(scores, values, tile=3), expected)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_nothing_at_all(shape):
    scores = torch.zeros(shape)
    assert online_softmax(scores).shape == shape
    weighted = online_softmax_weighted_sum(scores, torch.ones(shape[1], 4))
    assert torch.equal(weighted, torch.ones(shape[0], 4) * (shape[1] > 0))


@pytest.mark.parametrize("tile", [1, 2, 5])
def test_infinity_and_nan_spoil_their_own_row_alone(tile):
    x = torch.zeros(3, 5)
    x[0, 3], x[1, 3] = INFINITY, float("nan")
    rows = online_softmax(x, tile).isnan().any(-1)
    assert rows.tolist() == [True, True, False]
    assert online_softmax_weighted_sum(x, torch.ones(5, 2), tile).isnan().any(-1).tolist() == [True, True, False]


def test_gradients_flow_through_the_recurrence():
    scores, values = (scores_of(3, 7, 0).requires_grad_(), scores_of(7, 2, 1).requires_grad_())
    assert torch.autograd.gradcheck(lambda s, v: online_softmax_weighted_sum(s, v, tile=3), (scores, values))
    assert torch.autograd.gradcheck(lambda s: online_softmax(s, tile=3), (scores,))
