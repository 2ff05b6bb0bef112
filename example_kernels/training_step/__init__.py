"""A training step as one benchmark: forward, loss, backward, optimiser.

Two models: a deep MLP whose time is almost all in its products, and a transformer decoder block that uses the kernels
of this package. A step comes eager or compiled, and with or without `.item()` on its loss, which makes the CPU wait for
the GPU at every step. `IMPLEMENTATIONS` makes steps by name: `IMPLEMENTATIONS["eager"](model, item=False)`.
"""

from __future__ import annotations

from collections.abc import Callable

from example_kernels.training_step.models import DecoderBlock, Mlp
from example_kernels.training_step.step import Step, compiled_step, eager_step

__all__ = ["IMPLEMENTATIONS", "DecoderBlock", "Mlp", "Step", "compiled_step", "eager_step"]

IMPLEMENTATIONS: dict[str, Callable[..., Step]] = {"eager": eager_step, "compiled": compiled_step}
