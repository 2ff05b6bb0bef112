"""The example's training step: honest as it is, and its `.item()` is named with its line."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def inputs(device):
    torch.manual_seed(0)
    return torch.randn(32, 64, device=device), torch.randn(32, 64, device=device)


@pytest.fixture
def model(device):
    from example_kernels.training_step import Mlp

    return Mlp(64, 4).to(device)


def test_a_step_is_left_alone(inspected, model, inputs):
    from example_kernels.training_step.step import eager_step

    assert inspected(eager_step(model), *inputs, extra_checks=("sync",)).findings == ()


def test_reading_the_loss_is_named_with_its_line(inspected, model, inputs):
    from example_kernels.training_step.step import eager_step

    (finding,) = inspected(eager_step(model, item=True), *inputs, extra_checks=("sync",)).findings
    assert finding.check == "sync"
    assert "example_kernels/training_step/step.py:" in finding.seen
    assert "return loss.item() if self._item else loss.detach()" in finding.seen
