"""Kernels run where their tensors are, whichever device is the current one."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if torch.cuda.device_count() < 2:
    pytest.skip("needs two CUDA devices", allow_module_level=True)
# Only now: importing triton settles whether kernels are interpreted, which tests/kernels must decide without a GPU.
pytest.importorskip("triton")

from example_kernels import attention, gelu, softmax  # noqa: E402


def attend(name, head_dim, dtype):
    def function(x):
        q = x.view(1, 2, -1, head_dim).to(dtype)
        return attention.IMPLEMENTATIONS[name](q, q, q, causal=True)

    return function


FUNCTIONS = {
    "gelu triton": gelu.IMPLEMENTATIONS["triton"],
    "gelu cuda": gelu.IMPLEMENTATIONS["cuda"],
    "softmax": softmax.IMPLEMENTATIONS["triton"],
    "softmax, rows shared by programs": lambda x: softmax.IMPLEMENTATIONS["triton"](x.view(1, -1).repeat(1, 2)),
    "softmax of columns": lambda x: softmax.IMPLEMENTATIONS["triton"](x.view(64, -1), 0),
    "attention, plain kernel": attend("triton", 64, torch.bfloat16),
    "attention, Hopper's kernels": attend("triton", 128, torch.bfloat16),
    "attention in float32": attend("triton", 64, torch.float32),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_results_are_those_of_the_current_device(function):
    here = torch.randn(2 * 128 * 128, device="cuda:0", requires_grad=True)
    there = here.detach().to("cuda:1").requires_grad_()
    expected, actual = function(here), function(there)
    (gradient,) = torch.autograd.grad(actual, there, torch.ones_like(actual))
    assert torch.cuda.current_device() == 0
    assert actual.device == gradient.device == there.device
    torch.testing.assert_close(actual.cpu(), expected.cpu())
    torch.testing.assert_close(gradient.cpu(), torch.autograd.grad(expected, here, torch.ones_like(expected))[0].cpu())


@pytest.mark.parametrize("stand_in", ["k", "v"])
def test_operands_on_two_devices_are_refused(stand_in):
    operands = {name: torch.randn(1, 2, 8, 16, device="cuda:0") for name in "qkv"}
    operands[stand_in] = operands[stand_in].to("cuda:1")
    with pytest.raises(ValueError, match=r"different devices: .*cuda:1"):
        attention.IMPLEMENTATIONS["triton"](**operands)
