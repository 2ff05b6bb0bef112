"""What only a GPU can show of the GeLU kernels; the rest of their tests are in tests/kernels and run there too."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
# Only now: importing triton settles whether kernels are interpreted, which tests/kernels must decide without a GPU.
pytest.importorskip("triton")

from example_kernels.gelu import IMPLEMENTATIONS, gelu, gelu_reference  # noqa: E402
from example_kernels.gelu.reference import gelu_slope_reference  # noqa: E402

KERNELS = ("triton", "cuda", "cuda_scalar")


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest):
    return IMPLEMENTATIONS[request.param]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_torch_compile_of_the_formula_agrees(approximate):
    x = torch.randn(50, 7, device="cuda")
    torch.testing.assert_close(
        IMPLEMENTATIONS["compiled"](x, approximate), gelu_reference(x.double(), approximate).float()
    )


def test_picks_triton_on_cuda_tensors():
    x = torch.randn(1000, device="cuda", dtype=torch.bfloat16)
    assert torch.equal(gelu(x, "tanh"), IMPLEMENTATIONS["triton"](x, "tanh"))


def test_elements_past_two_to_the_31(kernel):
    n = 2**31 + 77
    x = torch.empty(n, device="cuda", dtype=torch.float16).fill_(-1.0)
    x[-100:] = 2.0
    y = kernel(x, "tanh")
    assert torch.equal(y[-100:], kernel(x[-100:].clone(), "tanh"))
    assert torch.equal(y[:100], kernel(x[:100].clone(), "tanh"))


def test_runs_on_the_current_stream(kernel):
    x = torch.zeros(2**20, device="cuda")
    kernel(x)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        x.fill_(1.0)
        y = kernel(x)
    stream.synchronize()
    torch.testing.assert_close(y, torch.full_like(y, 0.8413447))


def test_cpu_tensors_are_refused(kernel):
    with pytest.raises(ValueError, match="cpu"):
        kernel(torch.ones(3))


def test_large_random_input_forward_and_backward(kernel):
    x = (torch.randn(2**22 + 3, device="cuda", dtype=torch.bfloat16) * 3).requires_grad_()
    y = kernel(x, "tanh")
    (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
    torch.testing.assert_close(y.double(), gelu_reference(x.detach().double(), "tanh"), rtol=4e-3, atol=1e-6)
    torch.testing.assert_close(dx.double(), gelu_slope_reference(x.detach().double(), "tanh"), rtol=4e-3, atol=4e-3)


def test_results_are_the_same_every_time(kernel):
    x = torch.randn(2**20 + 1, device="cuda", dtype=torch.float16)
    assert torch.equal(kernel(x), kernel(x))
