"""The training step trains: losses fall, and reading the loss changes nothing but who waits."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch

from example_kernels.training_step import IMPLEMENTATIONS, DecoderBlock, Mlp, eager_step
from example_kernels.training_step.step import loss_of


def losses(step, x, target, count):
    step.optimiser.param_groups[0]["lr"] = 1e-2
    return [float(step(x, target)) for _ in range(count)]


@pytest.fixture(params=["mlp", "decoder"])
def problem(request):
    torch.manual_seed(0)
    if request.param == "mlp":
        return Mlp(16, layers=3), torch.randn(8, 16), torch.randn(8, 16)
    return DecoderBlock(16, heads=2), torch.randn(2, 6, 16), torch.randn(2, 6, 16)


def test_the_loss_falls(problem):
    model, x, target = problem
    history = losses(eager_step(model), x, target, 30)
    assert history[-1] < 0.95 * history[0]


def test_item_returns_the_same_loss_as_a_number(problem):
    model, x, target = problem
    expected = loss_of(model, x, target).item()
    loss = eager_step(model, item=True)(x, target)
    assert isinstance(loss, float)
    assert loss == pytest.approx(expected)


def test_without_item_the_loss_is_a_tensor_off_the_graph(problem):
    model, x, target = problem
    loss = eager_step(model)(x, target)
    assert isinstance(loss, torch.Tensor)
    assert not loss.requires_grad


@pytest.mark.parametrize("item", [False, True], ids=["free", "item"])
def test_a_compiled_step_does_what_an_eager_one_does(problem, item, monkeypatch):
    model, x, target = problem
    expected = losses(eager_step(copy.deepcopy(model)), x, target, 3)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager", fullgraph=True))
    step = IMPLEMENTATIONS["compiled"](model, item=item)
    assert losses(step, x, target, 3) == pytest.approx(expected, rel=1e-4)
    assert isinstance(step(x, target), float if item else torch.Tensor)


def test_the_decoder_block_is_causal():
    torch.manual_seed(0)
    block, x = DecoderBlock(16, heads=2), torch.randn(1, 6, 16)
    changed = x.clone()
    changed[:, 4:] += 1
    before, after = block(x), block(changed)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.equal(before[:, 4:], after[:, 4:])
