"""attention() in float32: torch's memory-efficient kernel, given what it takes; and when which kernel is chosen."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import example_kernels.attention as package
from example_kernels.attention import attention
from example_kernels.attention.in_float32 import attention_float32
from example_kernels.attention.reference import attention_naive
from example_kernels.support import availability

STEP = 4


def off_the_grid(x: torch.Tensor) -> torch.Tensor:
    roomy = x.new_full((x.numel() + 1,), float("nan"))
    roomy[1:] = x.flatten()
    return roomy[1:].view(x.shape)


def sliced(x: torch.Tensor) -> torch.Tensor:
    roomy = x.new_full((*x.shape[:3], x.shape[3] + 1), float("nan"))
    roomy[..., 1:] = x
    return roomy[..., 1:]


LAYOUTS = {
    "contiguous": lambda x: x,
    "heads inside lengths": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "columns outside": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "off the grid": off_the_grid,
    "sliced": sliced,
    "every second column": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "every row the same": lambda x: x[:, :, :1].expand(x.shape),
}


@pytest.fixture
def handed_over(monkeypatch):
    """What torch's own attention is given."""
    calls = []
    theirs = torch.nn.functional.scaled_dot_product_attention

    def record(q, k, v, **options):
        calls.append(((q, k, v), options))
        return theirs(q, k, v, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    return calls


def with_gradients(function, tensors, do, **options):
    leaves = [x.detach().requires_grad_() for x in tensors]
    o = function(*leaves, **options)
    return (o.detach(), *torch.autograd.grad(o, leaves, do))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [(2, 2), (6, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("head_dim", [1, 3, 16, 30, 257])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_is_the_formula_by_tensors_that_the_kernel_takes(draw, handed_over, layout, head_dim, heads, causal):
    shapes = ((2, heads[0], 9, head_dim), (2, heads[1], 11, head_dim), (2, heads[1], 11, head_dim))
    tensors = [LAYOUTS[layout](draw(shape, seed=i)) for i, shape in enumerate(shapes)]
    do = draw(shapes[0], seed=3)
    actual = with_gradients(attention_float32, tensors, do, causal=causal, scale=None)
    expected = with_gradients(attention_naive, [x.double() for x in tensors], do.double(), causal=causal)
    for ours, exact in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-4, atol=1e-5, check_stride=False)
    for x in handed_over[0][0]:
        assert x.shape[1] == heads[0]
        assert x.shape[3] % STEP == x.storage_offset() % STEP == 0
        assert x.stride(3) == 1
        assert all(stride % STEP == 0 for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True) if size > 1)


def test_tensors_that_fit_are_handed_over_as_they_lie(draw, handed_over):
    q = draw((2, 3, 9, 16)).transpose(1, 2).contiguous().transpose(1, 2)
    k = draw((2, 1, 11, 16)).expand(-1, 3, -1, -1)
    attention_float32(q, k, k, causal=True, scale=-0.3)
    (seen, options) = handed_over[0]
    assert [x.data_ptr() for x in seen] == [q.data_ptr(), k.data_ptr(), k.data_ptr()]
    assert options == {"is_causal": True, "scale": -0.3}


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_whole(draw, dynamic):
    compiled = torch.compile(attention_float32, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for length in (5, 6):
        q, k = off_the_grid(draw((1, 4, length, 6))), draw((1, 2, 7, 6), seed=1)
        options = {"causal": False, "scale": None}
        torch.testing.assert_close(compiled(q, k, k, **options), attention_float32(q, k, k, **options))


KINDS = ("attention_triton", "attention_float32", "attention_torch")


@pytest.fixture
def chosen(monkeypatch):
    """Which implementation attention() takes of a fake tensor on a GPU, and the dtype that it is given."""
    seen = []
    for kind in KINDS:
        monkeypatch.setattr(package, kind, lambda q, *_, kind=kind, **__: seen.append((kind, q.dtype)))
    monkeypatch.setattr(availability, "has_triton", lambda: True)

    def choose(dtype, head_dim=64):
        with FakeTensorMode():
            x = torch.empty(1, 2, 8, head_dim, device="cuda", dtype=dtype)
            attention(x, x, x)
        return seen.pop()

    return choose


@pytest.mark.parametrize(
    ("dtype", "head_dim", "kind"),
    [
        (torch.bfloat16, 64, "attention_triton"),
        (torch.float16, 256, "attention_triton"),
        (torch.float16, 257, "attention_torch"),
        (torch.float32, 64, "attention_float32"),
        (torch.float32, 257, "attention_torch"),
        (torch.float64, 64, "attention_torch"),
    ],
)
def test_the_fastest_is_chosen(chosen, dtype, head_dim, kind):
    assert chosen(dtype, head_dim) == (kind, dtype)


def test_autocast_decides_before_the_choice(chosen, monkeypatch):
    monkeypatch.setattr(package, "narrowed_by_autocast", lambda x: x.to(torch.bfloat16))
    assert chosen(torch.float32) == ("attention_triton", torch.bfloat16)


def test_who_wants_the_same_bits_every_time_gets_the_kernels_that_give_them(chosen):
    torch.use_deterministic_algorithms(True)
    try:
        assert chosen(torch.float32)[0] == "attention_triton"
    finally:
        torch.use_deterministic_algorithms(False)
