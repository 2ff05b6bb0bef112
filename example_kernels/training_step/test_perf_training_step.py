"""How long a training step takes; run with `pytest --gpuperf example_kernels/training_step`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from example_kernels.support.availability import why_not_measured  # noqa: E402
from example_kernels.training_step import IMPLEMENTATIONS, DecoderBlock, Mlp  # noqa: E402


@pytest.mark.parametrize("item", [False, True], ids=["free", "item"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_mlp_step(gpubench, implementation, item):
    device = str(gpubench.device)
    reason = why_not_measured(implementation, device)
    if reason:
        pytest.skip(reason)
    width, rows, layers = (1024, 256, 16) if device.startswith("cuda") else (64, 32, 4)
    torch.manual_seed(0)
    step = IMPLEMENTATIONS[implementation](Mlp(width, layers).to(device), item=item)
    loss = gpubench(step, torch.randn(rows, width, device=device), torch.randn(rows, width, device=device))
    assert float(loss) > 0


@pytest.mark.parametrize("item", [False, True], ids=["free", "item"])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_decoder_step(gpubench, implementation, item):
    device = str(gpubench.device)
    reason = why_not_measured(implementation, device)
    if reason:
        pytest.skip(reason)
    on_gpu = device.startswith("cuda")
    batch, length, width, heads = (4, 2048, 1024, 16) if on_gpu else (1, 32, 64, 2)
    dtype = torch.bfloat16 if on_gpu else torch.float32
    torch.manual_seed(0)
    step = IMPLEMENTATIONS[implementation](DecoderBlock(width, heads).to(device, dtype), item=item)
    x, target = (torch.randn(batch, length, width, device=device, dtype=dtype) for _ in range(2))
    assert float(gpubench(step, x, target)) > 0
