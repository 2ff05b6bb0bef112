"""GeLU as Triton kernels, one pass over memory: n elements cost 2 n loads and stores, whatever the arithmetic.

    tanh form:  ½ (1 + tanh u) = σ(2u) = 1 / (1 + 2^(−2u·log₂e)),  u = √(2/π) (x + 0.044715 x³)
    erf form:   ½ (1 + erf(x / √2))
    backward:   dx = dy · (Φ(x) + x · Φ'(x))

The sigmoid spelling costs one exponential and one division, and unlike 1 + tanh it loses no digits where x is
negative. Arithmetic is float32 whatever the tensors are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import triton
import triton.language as tl

from example_kernels.gelu.registration import register, register_backward
from example_kernels.support.ahead_of_time import Shipped
from example_kernels.support.availability import KERNEL_DTYPES, check_triton_device
from example_kernels.support.layout import dense_like

BLOCK = 1024
WARPS = 4


@triton.jit
def _sigmoid_2u(x):
    """Return σ(2u): −2 √(2/π) log₂e = −2.3022082."""
    return 1.0 / (1.0 + tl.exp2(x * (-2.3022081985 - 0.1029432397 * x * x)))


@triton.jit
def _upper_tail(x):
    """Return 1 − Φ(|x|) to 1e-7, by Abramowitz and Stegun 7.1.26: one reciprocal, one exponential, six products."""
    z = tl.abs(x) * 0.7071067812
    t = 1.0 / (1.0 + 0.3275911 * z)
    series = t * (0.127414796 + t * (-0.142248368 + t * (0.710706871 + t * (-0.726576013 + t * 0.530702714))))
    return series * tl.exp2(-1.4426950409 * z * z)


@triton.jit
def _gelu(x, TANH: tl.constexpr, NARROW: tl.constexpr):
    """NARROW: the result is rounded to 16 bits, so that erf to 1e-7 is exact enough, at half the instructions."""
    if TANH:
        y = x * _sigmoid_2u(x)
    elif NARROW:
        y = tl.maximum(x, 0.0) - tl.minimum(tl.abs(x), 64.0) * _upper_tail(x)
    else:
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067812))
    return y


@triton.jit
def _gelu_slope(x, TANH: tl.constexpr):
    # Beyond ±16 the slope is 0 or 1 to every digit; clamping keeps 0 · ∞ away.
    near = tl.minimum(tl.maximum(x, -16.0), 16.0)
    if TANH:
        sigmoid = _sigmoid_2u(x)  # and 2u' = 1.5957691 + 0.2140645 x²
        slope = sigmoid + near * sigmoid * (1.0 - sigmoid) * (1.5957691216 + 0.2140644488 * near * near)
    else:
        density = 0.3989422804 * tl.exp2(-0.7213475204 * near * near)
        slope = 0.5 * (1.0 + tl.erf(x * 0.7071067812)) + near * density
    return slope


@triton.jit
def gelu_forward_kernel(x_ptr, y_ptr, n, TANH: tl.constexpr, BLOCK: tl.constexpr):
    """Each program turns one block; only the last one pays for a mask, which would make the loads narrow."""
    NARROW: tl.constexpr = y_ptr.dtype.element_ty.primitive_bitwidth == 16
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        x = tl.load(x_ptr + start + offsets).to(tl.float32)
        tl.store(y_ptr + start + offsets, _gelu(x, TANH, NARROW).to(y_ptr.dtype.element_ty))
    else:
        inside = start + offsets < n
        x = tl.load(x_ptr + start + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + start + offsets, _gelu(x, TANH, NARROW).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def gelu_backward_kernel(dy_ptr, x_ptr, dx_ptr, n, TANH: tl.constexpr, BLOCK: tl.constexpr):
    """Recompute the slope from x, so that nothing else is kept for it."""
    start = tl.program_id(0).to(tl.int64) * BLOCK
    offsets = tl.arange(0, BLOCK)
    if start + BLOCK <= n:
        x = tl.load(x_ptr + start + offsets).to(tl.float32)
        dy = tl.load(dy_ptr + start + offsets).to(tl.float32)
        tl.store(dx_ptr + start + offsets, (dy * _gelu_slope(x, TANH)).to(dx_ptr.dtype.element_ty))
    else:
        inside = start + offsets < n
        x = tl.load(x_ptr + start + offsets, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + start + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx_ptr + start + offsets, (dy * _gelu_slope(x, TANH)).to(dx_ptr.dtype.element_ty), mask=inside)


def _check(x: torch.Tensor, approximate: str) -> None:
    check_triton_device(x)
    if x.dtype not in KERNEL_DTYPES:
        raise TypeError(f"GeLU kernels take float32, float16 and bfloat16, not {x.dtype}")
    if approximate not in {"none", "tanh"}:
        raise ValueError(f'approximate is "none" or "tanh", not {approximate!r}')


@torch.library.custom_op("example_kernels::gelu_triton", mutates_args=())
def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return GeLU of every element of `x` (any shape and strides; float32, float16 or bfloat16), on its stream."""
    _check(x, approximate)
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    x = dense_like(x, y)
    with torch.cuda.device_of(x):
        grid = (triton.cdiv(x.numel(), BLOCK),)
        gelu_forward_kernel[grid](x, y, x.numel(), approximate == "tanh", BLOCK, num_warps=WARPS)
    return y


@torch.library.custom_op("example_kernels::gelu_triton_backward", mutates_args=())
def gelu_backward(dy: torch.Tensor, x: torch.Tensor, approximate: str) -> torch.Tensor:
    """Return dy · gelu'(x), in the shape and dtype of `x`."""
    _check(x, approximate)
    dx = torch.empty_like(x)
    if x.numel() == 0:
        return dx
    x, dy = dense_like(x, dx), dense_like(dy, dx)
    with torch.cuda.device_of(x):
        grid = (triton.cdiv(x.numel(), BLOCK),)
        gelu_backward_kernel[grid](dy, x, dx, x.numel(), approximate == "tanh", BLOCK, num_warps=WARPS)
    return dx


register(gelu, gelu_backward)
register_backward(gelu_backward)


def shipped() -> Iterator[Shipped]:
    """Yield every configuration the launches above use, on the grid of 16 elements and off it."""
    for dtype in ("fp32", "fp16", "bf16"):
        for tanh in (False, True):
            for on_grid in (True, False):
                name = f"gelu {'tanh' if tanh else 'erf'} {dtype}{'' if on_grid else ' off the grid'}"
                yield _shipped(f"{name} forward", gelu_forward_kernel, ("x_ptr", "y_ptr"), dtype, tanh, on_grid)
                pointers = ("dy_ptr", "x_ptr", "dx_ptr")
                yield _shipped(f"{name} backward", gelu_backward_kernel, pointers, dtype, tanh, on_grid)


def _shipped(name: str, kernel: Any, pointers: tuple[str, ...], dtype: str, tanh: bool, on_grid: bool) -> Shipped:
    return Shipped(
        name=name,
        kernel=kernel,
        signature={**dict.fromkeys(pointers, f"*{dtype}"), "n": "i64"},
        constants={"TANH": tanh, "BLOCK": BLOCK},
        options={"num_warps": WARPS},
        unaligned=frozenset() if on_grid else frozenset({*pointers[:-1], "n"}),
    )
