"""How fast softmax is, implementation by implementation; run with `pytest --gpuperf example_kernels/softmax`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from example_kernels.softmax import IMPLEMENTATIONS  # noqa: E402
from example_kernels.support.availability import why_not_measured  # noqa: E402

SHAPES = {
    "narrow": (65536, 256),
    "square": (4096, 4096),
    "wide": (4096, 32768),
    "wider": (512, 131072),
    "widest": (64, 1048576),
}
SHAPE_ON_CPU = (64, 256)


@pytest.mark.perf
@pytest.mark.parametrize("rows", SHAPES)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_softmax(gpubench, implementation, rows):
    device = str(gpubench.device)
    reason = why_not_measured(implementation, device, on_cpu=rows == "square")
    if reason:
        pytest.skip(reason)
    shape = SHAPES[rows] if device.startswith("cuda") else SHAPE_ON_CPU
    x = torch.randn(shape, device=device)
    y = gpubench.run(
        IMPLEMENTATIONS[implementation],
        args=(x, -1),
        reference=torch.softmax,
        bytes_moved=2 * x.numel() * x.element_size(),
    )
    assert y.shape == x.shape


@pytest.mark.perf
def test_softmax_is_faster_than_torch(gpubench):
    """Read once and written once, where torch and torch.compile read these rows twice."""
    device = str(gpubench.device)
    reason = why_not_measured("triton", device)
    if reason:
        pytest.skip(reason)
    x = torch.randn(SHAPES["wide"], device=device)
    comparison = gpubench.compare(
        {name: IMPLEMENTATIONS[name] for name in ("torch", "compiled", "triton")},
        args=(x, -1),
        reference=torch.softmax,
        bytes_moved=2 * x.numel() * x.element_size(),
    )
    comparison.assert_faster("triton", than="torch", by=1.3)
    comparison.assert_faster("triton", than="compiled", by=1.2)
