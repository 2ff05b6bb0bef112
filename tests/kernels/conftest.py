"""Run the kernels where they can run: on the GPU where there is one, else in Triton's interpreter on the CPU.

Triton decides when a kernel is defined whether it will be interpreted, so the choice is made here, before any test
module imports one. Outside these tests the environment is left as it was.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

KERNEL_MODULES = tuple(f"example_kernels.{name}.with_triton" for name in ("gelu", "softmax", "attention"))
CAN_RUN = all(importlib.util.find_spec(name) for name in ("torch", "triton", "hypothesis"))
collect_ignore_glob = [] if CAN_RUN else ["test_*.py"]

if CAN_RUN:
    import torch

    INTERPRET = not torch.cuda.is_available()
    if INTERPRET and "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        raise pytest.UsageError("triton was imported before it could be told to interpret: by which test module?")


@contextmanager
def _interpreter() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if INTERPRET:
            patch.setenv("TRITON_INTERPRET", "1")
        yield


if CAN_RUN:
    with _interpreter():
        for module in KERNEL_MODULES:
            importlib.import_module(module)


# Numpy warns where the interpreter does what the hardware does silently: 2^x overflows to infinity.
# On a GPU torch remarks on contexts and precision that are not ours to set.
HARMLESS = ("ignore:(overflow|invalid value|divide by zero):RuntimeWarning", "ignore::UserWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pass the warnings above, and no others."""
    for item in items:
        if "tests/kernels/" in item.nodeid:
            for warning in HARMLESS[: 1 if INTERPRET else 2]:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with _interpreter():
        yield


@pytest.fixture(scope="session")
def device() -> str:
    return "cpu" if INTERPRET else "cuda"


def _arrange(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Return a tensor of the shape and values of `x` in another layout of memory."""
    if layout == "transposed" and x.dim() >= 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "sliced" and x.dim() >= 1:
        roomy = x.new_full((*x.shape[:-1], 2 * x.shape[-1]), float("nan"))
        roomy[..., ::2] = x
        return roomy[..., ::2]
    if layout == "misaligned":
        roomy = x.new_full((x.numel() + 1,), float("nan"))
        roomy[1:] = x.flatten()
        return roomy[1:].view(x.shape)
    if layout == "expanded" and x.dim() >= 1 and x.shape[0] > 0:
        return x[:1].expand(x.shape)
    return x.contiguous()


@pytest.fixture(scope="session")
def draw(device: str):
    """Make a random tensor: `draw(shape, dtype, layout, seed, scale)`."""

    def make(shape, dtype=torch.float32, layout="contiguous", seed=0, scale=1.0) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
        return _arrange(x.to(device=device, dtype=dtype), layout)

    return make


@pytest.fixture(scope="session")
def assert_close_to_float64():
    """Compare with a float64 reference: within `ulps` units of the dtype's precision, relative to the scale given."""

    def check(actual: torch.Tensor, expected: torch.Tensor, ulps: float = 2.0, scale: float = 1.0) -> None:
        assert expected.dtype == torch.float64
        precision = torch.finfo(actual.dtype).eps * ulps
        torch.testing.assert_close(
            actual.double(), expected, rtol=precision, atol=precision * scale, equal_nan=True, check_stride=False
        )

    return check


@pytest.fixture
def guard_bands(monkeypatch: pytest.MonkeyPatch):
    """Surround every tensor allocated inside the block by sentinels, poison it with NaN, and check the bands after."""
    band, sentinel = 64, 12345.0

    def allocate(size, stride, dtype, device):
        extent = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
        buffer = torch.full((extent + 2 * band,), sentinel, dtype=dtype, device=device)
        buffer[band : band + extent] = float("nan") if dtype.is_floating_point else -1
        bands.append((buffer, extent))
        return buffer.as_strided(size, stride, band)

    real_empty_like, real_empty = torch.empty_like, torch.empty
    bands: list[tuple[torch.Tensor, int]] = []

    def empty_like(x, **kwargs):
        model = real_empty_like(x, **kwargs)
        return allocate(model.shape, model.stride(), model.dtype, model.device)

    def empty(*args, **kwargs):
        model = real_empty(*args, **kwargs)
        return allocate(model.shape, model.stride(), model.dtype, model.device)

    @contextmanager
    def guarded() -> Iterator[SimpleNamespace]:
        found = SimpleNamespace(allocations=bands)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "empty_like", empty_like)
            patch.setattr(torch, "empty", empty)
            yield found
        assert bands, "nothing was allocated through torch.empty or torch.empty_like"
        for buffer, extent in bands:
            assert (buffer[:band] == sentinel).all()
            assert (buffer[band + extent :] == sentinel).all()

    return guarded
