"""One step of training, as a callable that can be timed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class Step:
    """Forward, mean squared error, backward and AdamW, each call from where the last one left the weights.

    With `item`, the loss is read on the CPU every step, which waits until the GPU has caught up: the habit that
    costs a training loop its overlap. Without it the loss stays a tensor.
    """

    def __init__(self, model: nn.Module, loss: Callable[..., torch.Tensor], item: bool) -> None:
        self.model = model
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self._loss = loss
        self._item = item

    def __call__(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor | float:
        """Take one step; return the loss before it."""
        self.optimiser.zero_grad(set_to_none=True)
        loss = self._loss(self.model, x, target)
        loss.backward()
        self.optimiser.step()
        return loss.item() if self._item else loss.detach()


def loss_of(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error of the model's output."""
    return nn.functional.mse_loss(model(x), target)


def eager_step(model: nn.Module, *, item: bool = False) -> Step:
    """Return a step that launches operation after operation."""
    return Step(model, loss_of, item)


def compiled_step(model: nn.Module, *, item: bool = False) -> Step:
    """Return a step whose forward and backward are compiled."""
    return Step(model, torch.compile(loss_of), item)
