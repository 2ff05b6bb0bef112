"""What every implementation of GeLU has to tell torch: the shape of the result, and how to differentiate it."""

from __future__ import annotations

from typing import Any

import torch


def register(gelu: Any, backward: Any) -> None:
    """Give the custom op `gelu(x, approximate)` a fake, and a derivative by `backward(dy, x, approximate)`."""

    def like_input(x: torch.Tensor, *_: object) -> torch.Tensor:
        return torch.empty_like(x)

    def keep(ctx: Any, inputs: tuple[torch.Tensor, str], **_output: object) -> None:
        x, ctx.approximate = inputs
        ctx.save_for_backward(x)

    def differentiate(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return backward(dy, x, ctx.approximate), None

    gelu.register_fake(like_input)
    gelu.register_autograd(differentiate, setup_context=keep)


def register_backward(backward: Any) -> None:
    """Give the custom op `backward(dy, x, approximate)` its fake."""

    def like_input(_dy: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
        return torch.empty_like(x)

    backward.register_fake(like_input)
