"""How fast GeLU is, implementation by implementation; run with `pytest --gpuperf example_kernels/gelu`.

GPUPERF_EXAMPLE_EXTRA_WORK=0.03 gives the Triton kernel 3 % more elements inside the same benchmark:
a slowdown on purpose, to see the gate close.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from example_kernels.gelu import IMPLEMENTATIONS, gelu_reference  # noqa: E402
from example_kernels.support.availability import why_unavailable  # noqa: E402

# Six separate kernels in bfloat16 round six times.
TOLERANCE = {"bfloat16": 2e-2, "float32": 1e-5}
ON_CPU = ("torch", "unfused")
EXTRA_WORK = float(os.environ.get("GPUPERF_EXAMPLE_EXTRA_WORK", "0"))


def elements_for(device: str) -> int:
    """64 M elements fill a GPU; a CPU gets what it can do in a millisecond."""
    return 64 * 2**20 if device.startswith("cuda") else 2**18


def skip_unless_available(name: str, device: str) -> None:
    if not device.startswith("cuda") and name not in ON_CPU:
        pytest.skip(f"{name} is measured on GPUs only")
    reason = why_unavailable(name, device)
    if reason:
        pytest.skip(reason)


def with_extra_work(function: Callable, extra: float) -> Callable:
    """Return `function` of the elements it is given and, where their storage goes on, of a share `extra` more."""

    def padded(x: torch.Tensor, approximate: str) -> torch.Tensor:
        wanted = int(x.numel() * (1 + extra))
        room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
        return function(x.as_strided((min(wanted, room),), (1,)), approximate)[: x.numel()]

    return padded


def make_input(device: str, dtype: torch.dtype, extra: float) -> torch.Tensor:
    """Return the benchmark's elements, at the front of a storage that has a share `extra` more of them."""
    n = elements_for(device)
    return torch.randn(int(n * (1 + extra)), device=device, dtype=dtype)[:n]


def in_higher_precision(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """Return the reference computed in float32 and rounded to the dtype of `x`."""
    return gelu_reference(x.float(), approximate).to(x.dtype)


@pytest.mark.perf
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_gelu(gpubench, implementation, dtype):
    device = str(gpubench.device)
    skip_unless_available(implementation, device)
    function = IMPLEMENTATIONS[implementation]
    extra = EXTRA_WORK if implementation == "triton" else 0.0
    x = make_input(device, getattr(torch, dtype), extra)
    y = gpubench.run(
        with_extra_work(function, extra) if extra else function,
        args=(x, "tanh"),
        reference=in_higher_precision,
        rtol=TOLERANCE[dtype],
        atol=TOLERANCE[dtype],
        bytes_moved=2 * x.numel() * x.element_size(),
    )
    assert y.shape == x.shape
