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
from example_kernels.support.availability import why_not_measured  # noqa: E402

EXTRA_WORK = float(os.environ.get("GPUPERF_EXAMPLE_EXTRA_WORK", "0"))
TOLERANCE = {"bfloat16": 2e-2, "float32": 1e-5}


def elements_for(device: str) -> int:
    """64 M elements fill a GPU; a CPU gets what it can do in well under a millisecond."""
    return 64 * 2**20 if device.startswith("cuda") else 2**15


def exact(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """Return the formula's value, computed in float32 and rounded once."""
    return gelu_reference(x.float(), approximate).to(x.dtype)


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


@pytest.mark.perf
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_gelu(gpubench, implementation, dtype):
    device = str(gpubench.device)
    reason = why_not_measured(implementation, device, on_cpu=dtype == "float32")
    if reason:
        pytest.skip(reason)
    function = IMPLEMENTATIONS[implementation]
    extra = EXTRA_WORK if implementation == "triton" else 0.0
    x = make_input(device, getattr(torch, dtype), extra)
    y = gpubench.run(
        with_extra_work(function, extra) if extra else function,
        args=(x, "tanh"),
        reference=exact,
        rtol=TOLERANCE[dtype],
        atol=TOLERANCE[dtype],
        bytes_moved=2 * x.numel() * x.element_size(),
    )
    assert y.shape == x.shape


@pytest.mark.perf
def test_gelu_is_as_fast_as_a_copy(gpubench):
    """One pass over memory, whatever the arithmetic: faster than torch's in 16 bits."""
    device = str(gpubench.device)
    reason = why_not_measured("cuda", device)
    if reason:
        pytest.skip(reason)
    x = make_input(device, torch.bfloat16, extra=0.0)
    comparison = gpubench.compare(
        {name: IMPLEMENTATIONS[name] for name in ("torch", "triton", "cuda")},
        args=(x, "tanh"),
        reference=exact,
        rtol=TOLERANCE["bfloat16"],
        atol=TOLERANCE["bfloat16"],
        bytes_moved=2 * x.numel() * x.element_size(),
    )
    comparison.assert_faster("triton", than="torch", by=1.1)
    comparison.assert_faster("cuda", than="torch", by=1.1)
