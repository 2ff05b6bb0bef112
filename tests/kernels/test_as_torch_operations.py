"""Around a kernel everything is as around torch's own operations, or says clearly that it is not."""

from __future__ import annotations

import copy
import inspect
import pickle
from functools import partial

import pytest
import torch
import torch.utils.checkpoint
from torch._subclasses.fake_tensor import FakeTensorMode

from example_kernels import attention as attention_package
from example_kernels import gelu as gelu_package
from example_kernels import softmax as softmax_package
from example_kernels import training_step as training_step_package
from example_kernels.attention import with_triton as attention_triton
from example_kernels.gelu import with_triton as gelu_triton
from example_kernels.softmax import with_triton as softmax_triton

gelu = gelu_package.IMPLEMENTATIONS["triton"]
softmax = softmax_package.IMPLEMENTATIONS["triton"]
attention = attention_package.IMPLEMENTATIONS["triton"]

SHAPE = (2, 3, 6, 16)


def self_attention(x: torch.Tensor) -> torch.Tensor:
    return attention(x, x, x, causal=True)


OPERATIONS = {
    "gelu": partial(gelu, approximate="tanh"),
    "softmax": partial(softmax, dim=1),
    "attention": self_attention,
}
every_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


def layouts(device: str) -> dict[str, torch.Tensor]:
    """The same shape in memory in every way that strides can say."""
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0)).to(device)
    batch, heads, length, width = SHAPE
    return {
        "contiguous": x,
        "heads inside lengths": x.transpose(1, 2).contiguous().transpose(1, 2),
        "columns outside": x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        "channels last": x.to(memory_format=torch.channels_last),
        "every second column": torch.randn(batch, heads, length, 2 * width, device=device)[..., ::2],
        "every third row": torch.randn(batch, heads, 3 * length, width, device=device)[:, :, 1::3],
        "into the middle": torch.randn(batch + 2, heads, length, width + 3, device=device)[1:-1, ..., 2:-1],
        "expanded batch": x[:1].expand(SHAPE),
        "expanded heads": x[:, :1].expand(SHAPE),
        "expanded rows": x[:, :, :1].expand(SHAPE),
        "expanded columns": x[..., :1].expand(SHAPE),
        "all one element": x[0, 0, 0, 0].expand(SHAPE),
        "overlapping windows": x.flatten().as_strided(SHAPE, (7, 5, 3, 1), 4),
    }


LAYOUTS = tuple(layouts("cpu"))


@pytest.mark.parametrize("layout", LAYOUTS)
@every_operation
def test_any_strides_give_what_contiguous_ones_give(operation, layout, device):
    x = layouts(device)[layout]
    plain = x.contiguous().requires_grad_()
    x = x.detach().requires_grad_()
    result, expected = operation(x), operation(plain)
    torch.testing.assert_close(result, expected)
    dy = torch.linspace(-1, 1, result.numel(), device=device).view(SHAPE)
    (dx,) = torch.autograd.grad(result, x, dy)
    torch.testing.assert_close(dx, torch.autograd.grad(expected, plain, dy)[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@every_operation
def test_fake_results_have_the_strides_of_real_ones(operation, layout, device):
    """torch.compile plans memory by the fake: a stride that differs is a wrong result."""
    real = layouts(device)[layout].detach()
    mode = FakeTensorMode()
    fake = mode.from_tensor(real)
    real.requires_grad_()
    with mode:
        fake.requires_grad_()
        fake_result = operation(fake)
        (fake_gradient,) = torch.autograd.grad(fake_result, fake, torch.ones_like(fake_result))
    result = operation(real)
    (gradient,) = torch.autograd.grad(result, real, torch.ones_like(result))
    for ours, planned in ((result, fake_result), (gradient, fake_gradient)):
        assert (planned.shape, planned.stride(), planned.dtype) == (ours.shape, ours.stride(), ours.dtype)


@pytest.mark.parametrize("shape", [(0, 2, 5, 16), (1, 0, 5, 16), (1, 2, 0, 16), (1, 1, 1, 1), (1, 1, 1, 256)])
@every_operation
def test_fakes_of_empty_and_tiny_tensors(operation, shape, device):
    with FakeTensorMode():
        fake = operation(torch.empty(shape, device=device))
    real = operation(torch.ones(shape, device=device))
    assert (fake.shape, fake.stride()) == (real.shape, real.stride())


@every_operation
def test_lazy_signs_are_resolved(operation, device):
    """Views whose bits are yet to be negated: of a negation, and of the imaginary part of a conjugate."""
    x = torch.randn(SHAPE, device=device)
    for lazy in (torch._neg_view(x), torch.complex(x, x).conj().imag):
        assert lazy.is_neg()
        torch.testing.assert_close(operation(lazy), operation(-x))
    plain, dy = x.requires_grad_(), torch._neg_view(torch.ones_like(x))
    (gradient,) = torch.autograd.grad(operation(plain), plain, dy)
    torch.testing.assert_close(gradient, torch.autograd.grad(operation(plain), plain, -torch.ones_like(x))[0])


@pytest.mark.parametrize("reentrant", [False, True])
@every_operation
def test_checkpoints_recompute_the_same(operation, reentrant, device):
    x = torch.randn(SHAPE, device=device, requires_grad=True)
    expected = torch.autograd.grad(operation(x).square().sum(), x)[0]
    torch.utils.checkpoint.checkpoint(operation, x, use_reentrant=reentrant).square().sum().backward()
    assert torch.equal(x.grad, expected)


@every_operation
def test_exports(operation, device):
    class Module(torch.nn.Module):
        def forward(self, x):
            return operation(x)

    x = torch.randn(SHAPE, device=device)
    torch.testing.assert_close(torch.export.export(Module(), (x,)).module()(x), operation(x))


@every_operation
def test_without_gradients_no_graph_is_kept(operation, device):
    x = torch.randn(SHAPE, device=device, requires_grad=True)
    with torch.no_grad():
        assert not operation(x).requires_grad
    with torch.inference_mode():
        inferred = operation(x)
    assert inferred.is_inference()
    torch.testing.assert_close(inferred, operation(x).detach())
    assert not operation(x.detach()).requires_grad


@every_operation
def test_inputs_are_left_alone(operation, device):
    x = torch.randn(SHAPE, device=device, requires_grad=True)
    before, version = x.detach().clone(), x._version
    operation(x).square().sum().backward()
    assert torch.equal(x.detach(), before)
    assert x._version == version


@every_operation
def test_a_changed_input_is_noticed_by_the_backward_pass(operation, device):
    x = torch.randn(SHAPE, device=device, requires_grad=True)
    base = x * 1
    result = operation(base)
    if operation is OPERATIONS["softmax"]:  # it keeps its output instead
        result.detach().add_(1)
    else:
        base.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@every_operation
def test_backward_twice_over_one_graph_is_bitwise_equal(operation, device):
    x = torch.randn(SHAPE, device=device, requires_grad=True)
    result, dy = operation(x), torch.randn(SHAPE, device=device)
    first, second = (torch.autograd.grad(result, x, dy, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.filterwarnings("ignore:.*not a double precision")
@every_operation
def test_gradients_by_finite_differences(operation, device):
    if operation is self_attention:
        arguments = [torch.randn(1, 1, 4, 2, device=device, requires_grad=True) for _ in range(3)]
        function = partial(attention, causal=True, scale=0.4)
    else:
        arguments, function = [torch.randn(3, 4, device=device, requires_grad=True)], operation
    assert torch.autograd.gradcheck(function, arguments, eps=1e-2, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("dynamic", [False, True])
@every_operation
def test_compiles_whole_in_forward_and_backward(operation, dynamic, device):
    compiled = torch.compile(operation, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for length in (5, 6):
        x = torch.randn(1, 2, length, 16, device=device).transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        result, expected = compiled(x), operation(x)
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected)
        dy = torch.randn(result.shape, device=device)
        (actual,) = torch.autograd.grad(result, x, dy)
        torch.testing.assert_close(actual, torch.autograd.grad(expected, x, dy)[0])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@every_operation
def test_vmap_goes_slice_by_slice(operation, device):
    x = torch.randn(3, *SHAPE, device=device)
    expected = torch.stack([operation(row) for row in x])
    torch.testing.assert_close(torch.func.vmap(operation)(x), expected)


@every_operation
def test_functional_gradients_are_refused(operation, device):
    """torch's custom operators do not support them: use autograd, which differentiates them once, in reverse."""
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.func.grad(lambda x: operation(x).sum())(torch.randn(SHAPE, device=device))


def forward_by_jvp(operation, x):
    return torch.func.jvp(operation, (x,), (torch.ones_like(x),))


def forward_by_jacobian(operation, x):
    return torch.func.jacfwd(operation)(x)


def forward_by_dual_numbers(operation, x):
    with torch.autograd.forward_ad.dual_level():
        return operation(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))


@pytest.mark.parametrize("forward", [forward_by_jvp, forward_by_jacobian, forward_by_dual_numbers])
@pytest.mark.parametrize(
    "function",
    [*OPERATIONS.values(), *(gelu_package.IMPLEMENTATIONS[name] for name in ("cuda", "cuda_scalar"))],
    ids=[*OPERATIONS, "gelu cuda", "gelu cuda scalar"],
)
def test_forward_mode_is_refused(function, forward, device):
    """torch would drop the tangents of a custom operator and return zeros."""
    with pytest.raises(NotImplementedError, match="in reverse mode only"):
        forward(function, torch.randn(1, 2, 3, 4, device=device))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.bool, torch.complex64])
@every_operation
def test_other_dtypes_are_named(operation, dtype, device):
    with pytest.raises(TypeError, match=f"take float32, float16 and bfloat16, not {dtype}"):
        operation(torch.ones(SHAPE, device=device).to(dtype))


@every_operation
def test_cpu_tensors_are_refused_where_nothing_interprets(operation, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="need CUDA tensors, got one on cpu"):
        operation(torch.ones(SHAPE))


def test_attention_under_autocast_is_in_its_dtype(device):
    q, k, v = (torch.randn(1, 2, 5, 16, device=device, requires_grad=True) for _ in range(3))
    with torch.autocast(device, torch.float16):
        mixed = attention(q, k.half(), v)
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k.half(), v)
    assert mixed.dtype == theirs.dtype == torch.float16
    torch.testing.assert_close(mixed, theirs, rtol=2e-3, atol=2e-3)
    mixed.sum().backward()
    assert q.grad.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_softmax_and_gelu_under_autocast_have_the_dtype_of_torchs(dtype, device):
    x = torch.randn(5, 16, device=device, dtype=dtype)
    with torch.autocast(device, torch.bfloat16):
        assert softmax(x, -1).dtype == torch.softmax(x, -1).dtype
        assert gelu(x).dtype == torch.nn.functional.gelu(x).dtype


@pytest.mark.parametrize(
    ("package", "parameters"),
    [
        (gelu_package, {"x": inspect.Parameter.empty, "approximate": "none"}),
        (softmax_package, {"x": inspect.Parameter.empty, "dim": -1}),
        (attention_package, {**dict.fromkeys("qkv", inspect.Parameter.empty), "causal": False, "scale": None}),
    ],
    ids=["gelu", "softmax", "attention"],
)
def test_every_implementation_is_called_alike(package, parameters):
    name = package.__name__.rsplit(".", 1)[1]
    for function in (getattr(package, name), *package.IMPLEMENTATIONS.values()):
        found = {n: p.default for n, p in inspect.signature(function).parameters.items()}
        extra = {n for n in found if n not in parameters}
        assert {n: found[n] for n in parameters} == parameters
        assert list(found)[: len(parameters)] == list(parameters)
        assert all(found[n] is not inspect.Parameter.empty for n in extra)
        keyword_only = {n for n, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}
        assert keyword_only - extra == ({"causal", "scale"} if name == "attention" else set())


def test_the_implementations_are_those_of_the_documentation():
    assert list(gelu_package.IMPLEMENTATIONS) == ["torch", "unfused", "compiled", "triton", "cuda", "cuda_scalar"]
    assert list(softmax_package.IMPLEMENTATIONS) == ["torch", "unfused", "compiled", "triton"]
    assert list(attention_package.IMPLEMENTATIONS) == [
        "torch", "unfused", "tiled", "compiled", "flash", "cudnn", "triton",
    ]  # fmt: skip
    assert list(training_step_package.IMPLEMENTATIONS) == ["eager", "compiled"]


@pytest.mark.parametrize("package", [gelu_package, softmax_package, attention_package], ids=lambda p: p.__name__)
def test_implementations_can_be_copied_and_the_operation_pickled(package):
    """Fresh processes are handed functions by name."""
    operation = getattr(package, package.__name__.rsplit(".", 1)[1])
    assert pickle.loads(pickle.dumps(operation)) is operation
    assert copy.deepcopy(package.IMPLEMENTATIONS) == package.IMPLEMENTATIONS


@pytest.mark.parametrize("module", [gelu_triton, softmax_triton, attention_triton], ids=lambda m: m.__name__)
def test_operators_say_what_they_mutate(module):
    """Nothing: the schema that torch.compile relies on."""
    operators = [x for x in vars(module).values() if isinstance(x, torch.library.CustomOpDef)]
    assert len(operators) == 2
    assert not any(op._opoverload._schema.is_mutable for op in operators)
