"""Twelve benchmarks from 2 us to 5 ms on an H200, bound by launches, by memory and by arithmetic.

On a CPU the same calls run on small tensors. The inputs are closed over, so that extra work is no other workload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

Call = Callable[[], Any]


def add_4k(at: Any) -> Call:
    """Launch-bound: the shortest kernel there is."""
    x = at.randn(4096, dtype="float32")
    return lambda: x + x


def adds_in_a_row(at: Any) -> Call:
    """Launch-bound: twenty short kernels, each waiting for the last."""
    x = at.randn(at.size(2**16, 2**10), dtype="float32")

    def call() -> Any:
        y = x
        for _ in range(20):
            y = y + x
        return y

    return call


def mlp_step(at: Any) -> Call:
    """Launch-bound: forward and backward of a small MLP."""
    nn = at.torch.nn
    width = at.size(1024, 64)
    dtype = at.torch.bfloat16 if at.on_gpu else at.torch.float32
    model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(width, width), nn.GELU())])
    model = model.to(device=at.device, dtype=dtype)
    x = at.randn(at.size(256, 16), width)

    def call() -> Any:
        model.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    return call


def gelu_64m(at: Any) -> Call:
    """Bound by memory."""
    x = at.randn(at.slowed("gelu_64m", at.size(2**26, 2**16)))
    return lambda: at.torch.nn.functional.gelu(x, approximate="tanh")


def softmax_4k(at: Any) -> Call:
    """Bound by memory."""
    size = at.size(4096, 128)
    x = at.randn(size, size, dtype="float32")
    return lambda: at.torch.softmax(x, dim=-1)


def copy_256m(at: Any) -> Call:
    """Bound by memory: 256 MiB read and written."""
    x = at.randn(at.size(2**26, 2**16), dtype="float32")
    return x.clone


def layer_norm_8k(at: Any) -> Call:
    """Bound by memory."""
    size = at.size(8192, 128)
    x = at.randn(size, size)
    return lambda: at.torch.nn.functional.layer_norm(x, (size,))


def sum_1g(at: Any) -> Call:
    """Bound by memory: 1 GiB read."""
    x = at.randn(at.size(2**28, 2**16), dtype="float32")
    return x.sum


def matmul_1k(at: Any) -> Call:
    """Arithmetic, too little to fill the device."""
    size = at.size(1024, 32)
    x = at.randn(size, size)
    return lambda: x @ x


def matmul_4k(at: Any) -> Call:
    """Bound by arithmetic; extra work goes into the inner dimension, which no tile rounds away."""
    size = at.size(4096, 96)
    inner = at.slowed("matmul_4k", size, step=64 if at.on_gpu else 1)
    a, b = at.randn(size, inner), at.randn(inner, size)
    return lambda: a @ b


def attention_4k(at: Any) -> Call:
    """Bound by arithmetic."""
    length, heads = at.size(4096, 64), at.size(32, 2)
    q, k, v = (at.randn(1, heads, length, at.size(128, 16)) for _ in range(3))
    return lambda: at.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def matmul_12k(at: Any) -> Call:
    """Bound by arithmetic and, before long, by power."""
    size = at.size(12288, 160)
    x = at.randn(size, size)
    return lambda: x @ x


MAKERS = (
    add_4k,
    adds_in_a_row,
    mlp_step,
    gelu_64m,
    softmax_4k,
    copy_256m,
    layer_norm_8k,
    sum_1g,
    matmul_1k,
    matmul_4k,
    attention_4k,
    matmul_12k,
)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_kernel(gpubench: Any, place: Any, make: Callable[[Any], Call]) -> None:
    gpubench(make(place))
