"""GeLU kernels against the formula in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from example_kernels.gelu import IMPLEMENTATIONS, gelu, with_triton
from example_kernels.gelu.reference import gelu_reference, gelu_slope_reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LAYOUTS = ("contiguous", "transposed", "sliced", "misaligned", "expanded")
BLOCK = with_triton.BLOCK

few = settings(max_examples=25, deadline=None)
shapes = st.lists(st.integers(0, 40), max_size=3).map(tuple) | st.sampled_from(
    [(BLOCK - 1,), (BLOCK,), (BLOCK + 1,), (3, BLOCK), (1,), ()]
)


KERNELS = ["triton", "cuda", "cuda_scalar"] if torch.cuda.is_available() else ["triton"]


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request: pytest.FixtureRequest):
    return IMPLEMENTATIONS[request.param]


@few
@given(shapes, st.sampled_from(DTYPES), st.sampled_from(LAYOUTS), st.sampled_from(["none", "tanh"]), st.integers(0, 99))
def test_forward_matches_the_formula(kernel, draw, assert_close_to_float64, shape, dtype, layout, approximate, seed):
    x = draw(shape, dtype, layout, seed, scale=3.0)
    y = kernel(x, approximate)
    assert (y.shape, y.dtype, y.stride()) == (x.shape, x.dtype, torch.empty_like(x).stride())
    assert_close_to_float64(y, gelu_reference(x.double(), approximate), ulps=8 if dtype == torch.float32 else 1)


@few
@given(shapes, st.sampled_from(DTYPES), st.sampled_from(LAYOUTS), st.sampled_from(["none", "tanh"]), st.integers(0, 99))
def test_backward_matches_the_formula(kernel, draw, assert_close_to_float64, shape, dtype, layout, approximate, seed):
    x = draw(shape, dtype, layout, seed, scale=3.0).requires_grad_()
    dy = draw(shape, dtype, layout, seed + 1)
    (dx,) = torch.autograd.grad(kernel(x, approximate), x, dy)
    assert (dx.shape, dx.dtype) == (x.shape, x.dtype)
    expected = dy.double() * gelu_slope_reference(x.detach().double(), approximate)
    assert_close_to_float64(dx, expected, ulps=16 if dtype == torch.float32 else 1, scale=4.0)


def test_sum_backward_gives_an_expanded_gradient(kernel, draw, assert_close_to_float64):
    x = draw((7, 33)).requires_grad_()
    kernel(x, "tanh").sum().backward()
    assert_close_to_float64(x.grad, gelu_slope_reference(x.detach().double(), "tanh"), ulps=16)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_values(kernel, device, approximate, dtype):
    largest = torch.finfo(dtype).max
    x = torch.tensor([largest, -largest, 1e4, -1e4, 0.0, float("inf"), float("nan")], device=device, dtype=dtype)
    y = kernel(x, approximate)
    expected = torch.tensor([largest, 0, 1e4, 0, 0, float("inf"), float("nan")], device=device, dtype=dtype)
    torch.testing.assert_close(y, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_minus_infinity_is_nan_as_in_torch_but_for_the_short_form_of_erf(kernel, device, approximate, dtype):
    """−∞ · 0 in the formula; erf in 16 bits is written without that product, and gives the limit."""
    y = kernel(torch.tensor([-float("inf")], device=device, dtype=dtype), approximate)
    short = approximate == "none" and dtype != torch.float32
    assert y.item() == 0 if short else y.isnan().all()


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_denormals_are_halved(kernel, device, approximate):
    x = torch.tensor([1e-39, -1e-39, 1e-44], device=device)
    torch.testing.assert_close(kernel(x, approximate), x / 2, rtol=1e-4, atol=2e-45)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_slope_of_extreme_values_is_zero_or_one(kernel, device, approximate):
    values = [3e38, -3e38, 1e10, -1e10, float("inf"), -float("inf"), float("nan")]
    x = torch.tensor(values, device=device, requires_grad=True)
    kernel(x, approximate).backward(torch.ones_like(x))
    expected = torch.tensor([1, 0, 1, 0, 1, 0, float("nan")], device=device)
    torch.testing.assert_close(x.grad, expected, rtol=0, atol=0, equal_nan=True)


def test_tanh_form_keeps_its_digits_where_it_is_nearly_zero(kernel, device):
    x = torch.linspace(-9, -3, 100, device=device)
    expected = gelu_reference(x.double(), "tanh")
    torch.testing.assert_close(kernel(x, "tanh").double(), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("n", [1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
def test_nothing_is_written_outside_and_everything_inside(kernel, draw, guard_bands, n):
    x = draw((n,), torch.float16).requires_grad_()
    with guard_bands():
        y = kernel(x, "tanh")
        (dx,) = torch.autograd.grad(y, x, torch.ones_like(x))
    assert not y.isnan().any()
    assert not dx.isnan().any()


def test_wrong_arguments_are_named(kernel, device):
    with pytest.raises(TypeError, match="float64"):
        kernel(torch.ones(3, device=device, dtype=torch.float64))
    with pytest.raises(ValueError, match="approximate"):
        kernel(torch.ones(3, device=device), "cubic")


def test_second_derivative_raises(kernel, draw):
    x = draw((5,)).requires_grad_()
    (dx,) = torch.autograd.grad(kernel(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="gelu"):
        dx.sum().backward()


def test_no_grad_keeps_no_graph(kernel, draw):
    x = draw((5,)).requires_grad_()
    with torch.no_grad():
        assert not kernel(x).requires_grad


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck(draw, layout):
    torch.library.opcheck(with_triton.gelu, (draw((6, 35), layout=layout).requires_grad_(), "tanh"))
    torch.library.opcheck(with_triton.gelu_backward, (draw((6, 35), layout=layout), draw((6, 35)), "none"))


def test_compiles_without_a_graph_break(kernel, draw, device):
    @torch.compile(fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    def doubled(x):
        return 2 * kernel(x, "tanh")

    x = draw((6, 35), layout="transposed").requires_grad_()
    doubled(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * torch.autograd.grad(kernel(x, "tanh").sum(), x)[0])


def test_best_available_falls_back_to_torch_for_other_dtypes(draw):
    x = draw((5,), torch.float64)
    torch.testing.assert_close(gelu(x, "tanh"), torch.nn.functional.gelu(x, approximate="tanh"))
    with pytest.raises(ValueError, match="approximate"):
        gelu(x, "cubic")


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("name", ["torch", "unfused"])
def test_torch_spellings_agree_with_the_formula(name, draw, approximate):
    x = draw((50, 7), torch.float32)
    torch.testing.assert_close(IMPLEMENTATIONS[name](x, approximate), gelu_reference(x.double(), approximate).float())
