"""How fast attention is, forward and backward; run with `pytest --gpuperf example_kernels/attention`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from example_kernels.attention import IMPLEMENTATIONS  # noqa: E402
from example_kernels.support.availability import why_not_measured  # noqa: E402

SHAPES = {"d128": (4, 32, 4096, 128), "d64": (4, 16, 8192, 64)}
SHAPE_ON_CPU = (1, 2, 64, 32)
LENGTHS = [256, 1024, 4096, 8192, 16384, 32768]
RIVALS = ("unfused", "torch", "flash", "cudnn", "triton")
TOLERANCE = 2e-2


def make_inputs(device: str, shape: tuple[int, ...]) -> list[torch.Tensor]:
    """Return q, k, v and dO, bfloat16 on a GPU."""
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    return [torch.randn(shape, device=device, dtype=dtype, requires_grad=i < 3) for i in range(4)]


def forward_flops(shape: tuple[int, ...], causal: bool) -> float:
    """Two products of length² × head_dim a head; half of them under a causal mask."""
    batch, heads, length, head_dim = shape
    return 4.0 * batch * heads * length**2 * head_dim * (0.5 if causal else 1.0)


def why_scores_do_not_fit(device: str, shape: tuple[int, ...]) -> str | None:
    """Why the formula as written cannot run: it holds three or four score matrices of 16 bits at a time."""
    batch, heads, length, _ = shape
    needed, present = 4 * 2 * batch * heads * length**2, torch.cuda.get_device_properties(device).total_memory
    return None if needed < present else f"the score matrices take {needed / 2**30:.0f} GiB"


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Return attention computed in float32 and rounded once."""
    o = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    return o.to(q.dtype)


@pytest.mark.perf
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("implementation", RIVALS)
def test_attention_forward(gpubench, implementation, shape, causal):
    device = str(gpubench.device)
    reason = why_not_measured(implementation, device, on_cpu=(implementation, shape) == ("torch", "d64"))
    if not reason and implementation == "unfused":
        reason = why_scores_do_not_fit(device, SHAPES[shape])
    if reason:
        pytest.skip(reason)
    size = SHAPES[shape] if device.startswith("cuda") else SHAPE_ON_CPU
    q, k, v = (x.detach() for x in make_inputs(device, size)[:3])
    gpubench.run(
        IMPLEMENTATIONS[implementation],
        args=(q, k, v),
        kwargs={"causal": causal},
        reference=exact,
        rtol=TOLERANCE,
        atol=TOLERANCE,
        bytes_moved=4 * q.numel() * q.element_size(),
        flops=forward_flops(size, causal),
    )


@pytest.mark.perf
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("implementation", ["flash", "cudnn", "triton"])
def test_attention_backward(gpubench, implementation, shape, causal):
    device = str(gpubench.device)
    reason = why_not_measured(implementation, device)
    if reason:
        pytest.skip(reason)
    q, k, v, _ = make_inputs(device, SHAPES[shape])
    flops = 2.5 * forward_flops(SHAPES[shape], causal)
    gpubench.run(IMPLEMENTATIONS[implementation], (q, k, v), {"causal": causal}, flops=flops, mode="backward")


@pytest.mark.perf
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_attention_is_faster_than_flash(gpubench, causal):
    device = str(gpubench.device)
    reason = why_not_measured("triton", device)
    if reason:
        pytest.skip(reason)
    q, k, v = (x.detach() for x in make_inputs(device, SHAPES["d128"])[:3])
    comparison = gpubench.compare(
        {name: IMPLEMENTATIONS[name] for name in ("flash", "cudnn", "triton")},
        args=(q, k, v),
        kwargs={"causal": causal},
        reference=exact,
        rtol=TOLERANCE,
        atol=TOLERANCE,
        flops=forward_flops(SHAPES["d128"], causal),
    )
    comparison.assert_faster("triton", than="flash", by=1.4)


@pytest.mark.perf
def test_attention_grows_as_it_should(gpubench):
    """Time as the square of the length, memory as the length: the score matrix is never stored."""
    device = str(gpubench.device)
    reason = why_not_measured("triton", device)
    if reason:
        pytest.skip(reason)

    def make(length):
        q, k, v = (x.detach() for x in make_inputs(device, (1, 16, length, 128))[:3])
        return IMPLEMENTATIONS["triton"], (q, k, v)

    flops = {length: forward_flops((1, 16, length, 128), causal=False) for length in LENGTHS}
    sweep = gpubench.sweep(make, LENGTHS, flops=flops.__getitem__, fit_from=4096)
    sweep.assert_scaling(2.0, tolerance=0.15)
    sweep.assert_memory_scaling(1.0, tolerance=0.05)
