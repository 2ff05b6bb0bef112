"""What is trained: an MLP and a decoder block, small enough to read and deep enough to be launch-bound when small."""

from __future__ import annotations

import torch
from torch import nn

from example_kernels.attention import attention
from example_kernels.gelu import gelu


class Mlp(nn.Module):
    """Linear layers with GeLU between them, `width` wide throughout: (…, width) → (…, width)."""

    def __init__(self, width: int, layers: int = 16) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the layers in turn."""
        for layer in self.layers[:-1]:
            x = gelu(layer(x), "tanh")
        return self.layers[-1](x)


class DecoderBlock(nn.Module):
    """Pre-norm causal attention and MLP, each added to its input: (batch, length, width) → the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.to_qkv = nn.Linear(width, 3 * width)
        self.from_heads = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attend, then transform every position by itself."""
        x = x + self.from_heads(self._attend(self.before_attention(x)))
        return x + self.contract(gelu(self.expand(self.before_mlp(x)), "tanh"))

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.to_qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return attention(q, k, v, causal=True).transpose(1, 2).reshape(batch, length, width)
