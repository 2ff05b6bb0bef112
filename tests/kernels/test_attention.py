"""Attention kernels against the formula in float64, forward and backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from example_kernels.attention import IMPLEMENTATIONS, attention, configurations, with_triton
from example_kernels.attention import layout as memory_layout
from example_kernels.attention.reference import (
    attention_backward_reference,
    attention_naive,
    attention_tiled,
    attention_tiled_with_lse,
)

ON_GPU = torch.cuda.is_available()
# The interpreter's bfloat16 products are wrong, silently.
DTYPES = (torch.float32, torch.float16, torch.bfloat16) if ON_GPU else (torch.float32, torch.float16)
LAYOUTS = ("contiguous", "transposed", "sliced", "misaligned")
ULPS = {torch.float32: 60, torch.float16: 4, torch.bfloat16: 4}

GUARDED = [(24, torch.float16), (33, torch.float16), (40, torch.float32)]
if ON_GPU:  # among them those of the Hopper kernels, which are not interpreted
    GUARDED += [(n, torch.bfloat16) for n in (64, 80, 128, 200, 256)]

few = settings(max_examples=16 if ON_GPU else 10, deadline=None)
kernel = IMPLEMENTATIONS["triton"]


@st.composite
def problems(draw):
    """Batch, heads, key heads, queries, keys, head_dim: around the tiles, off them, and tiny."""
    group, kv_heads = draw(st.sampled_from([(1, 1), (1, 2), (2, 2), (3, 1)]))
    lengths = st.integers(1, 40) | st.sampled_from([63, 64, 65, 127, 128, 129, 150])
    head_dim = draw(st.sampled_from([16, 24, 40, 64, 72, 80, 96, 128]) | st.integers(1, 128))
    return draw(st.integers(1, 2)), group * kv_heads, kv_heads, draw(lengths), draw(lengths), head_dim


def every_tile():
    tables = [table for name, table in vars(configurations).items() if name.endswith(("_BITS", "_POINTER"))]
    assert len(tables) >= 5
    return [tiles for table in tables for tiles in table.values()]


def lay_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """Heads and lengths swapped in memory; a slice of wider rows; off the 16-byte grid; or plain."""
    if layout == "transposed":
        return x.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "sliced":
        roomy = x.new_full((*x.shape[:3], x.shape[3] + 8), float("nan"))
        roomy[..., : x.shape[3]] = x
        return roomy[..., : x.shape[3]]
    if layout == "misaligned":
        roomy = x.new_full((x.numel() + 1,), float("nan"))
        roomy[1:] = x.flatten()
        return roomy[1:].view(x.shape)
    return x


@pytest.fixture(scope="module")
def inputs(draw):
    """Make q, k, v and dO for a problem."""

    def make(problem, dtype=torch.float32, layout="contiguous", seed=0, scale=1.0):
        batch, heads, kv_heads, queries, keys, head_dim = problem
        shapes = [(heads, queries), (kv_heads, keys), (kv_heads, keys), (heads, queries)]
        made = [draw((batch, h, n, head_dim), dtype, "contiguous", seed + i, scale) for i, (h, n) in enumerate(shapes)]
        return [lay_out(x, layout) for x in made]

    return make


def with_gradients(function, q, k, v, do, **options):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    o = function(q, k, v, **options)
    return (o.detach(), *torch.autograd.grad(o, (q, k, v), do))


def assert_matches(actual, expected, dtype, factor=1.0):
    """Error relative to the largest value: sums of many rounded products have no better bound element by element."""
    for name, a, e in zip(("o", "dq", "dk", "dv"), actual, expected, strict=False):
        assert a.dtype == dtype
        bound = torch.finfo(dtype).eps * ULPS[dtype] * max(1.0, e.abs().max().item()) * factor
        error = (a.double() - e).abs().max().item()
        assert error <= bound, f"{name} is off by {error:.2e}, allowed {bound:.2e}"


@few
@given(problems(), st.sampled_from(DTYPES), st.sampled_from(LAYOUTS), st.booleans(), st.integers(0, 99))
def test_forward_and_every_gradient_match_the_formula(inputs, problem, dtype, layout, causal, seed):
    q, k, v, do = inputs(problem, dtype, layout, seed)
    actual = with_gradients(kernel, q, k, v, do, causal=causal)
    exact = [x.double() for x in (q, k, v, do)]
    expected = with_gradients(attention_naive, *exact, causal=causal)
    assert actual[0].shape == q.shape
    assert_matches(actual, expected, dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize("head_dim", [136, 200, 251, 256])
def test_wide_heads(inputs, head_dim, described, causal):
    q, k, v, do = inputs((2, 1, 1, 150, 140, head_dim), torch.float16)
    if not described:
        k, v = (x[:1].expand(2, -1, -1, -1) for x in (k, v))  # repeated by a stride of 0, which no descriptor has
    assert memory_layout.can_describe(q, k, v, do) == (described and head_dim != 251)
    expected = with_gradients(attention_naive, *[x.double() for x in (q, k, v, do)], causal=causal)
    assert_matches(with_gradients(kernel, q, k, v, do, causal=causal), expected, torch.float16)


@pytest.mark.parametrize("causal", [False, True])
def test_log_sum_exp(inputs, causal):
    q, k, v, _ = inputs((1, 2, 1, 70, 50, 32))
    _, lse = with_triton.attention_with_lse(q, k, v, causal, 0.3)
    _, expected = attention_tiled_with_lse(q.double(), k.double(), v.double(), causal=causal, scale=0.3)
    assert lse.dtype == torch.float32
    torch.testing.assert_close(lse.double(), expected, rtol=1e-6, atol=1e-6)


def test_log_sum_exp_has_its_gradient(inputs):
    q, k, v, _ = inputs((1, 1, 1, 20, 30, 16))

    def through_kernel(q, k, v, **_):
        return with_triton.attention_with_lse(q, k, v, True, 0.3)[1]

    def through_formula(q, k, v, **_):
        return attention_tiled_with_lse(q, k, v, causal=True, scale=0.3)[1] + 0 * v.sum()

    weights = torch.linspace(-1, 1, 20, device=q.device).view(1, 1, 20)
    actual = with_gradients(through_kernel, q, k, v, weights)
    expected = with_gradients(through_formula, q.double(), k.double(), v.double(), weights.double())
    assert_matches(actual, expected, torch.float32)


def test_float32_is_exact_to_rounding(inputs):
    q, k, v, _ = inputs((1, 2, 2, 128, 128, 64))
    expected = attention_naive(q.double(), k.double(), v.double())
    assert (kernel(q, k, v).double() - expected).abs().max() < 2e-6


@pytest.mark.parametrize("scale", [0.0, 1.0, -0.7, 20.0, 1e-40, -1e-40])
def test_any_scale(inputs, scale):
    q, k, v, do = inputs((1, 1, 1, 33, 40, 16))
    actual = with_gradients(kernel, q, k, v, do, scale=scale, causal=True)
    expected = with_gradients(attention_naive, *[x.double() for x in (q, k, v, do)], scale=scale, causal=True)
    assert_matches(actual, expected, torch.float32, factor=10)


def test_causal_alignment_is_top_left(inputs):
    q, k, v, _ = inputs((1, 1, 1, 10, 30, 16))
    o = kernel(q, k, v, causal=True)
    torch.testing.assert_close(o[:, :, 0], v[:, :, 0])
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(o, expected)


def test_queries_without_keys_get_zeros(inputs):
    q, k, v, do = inputs((1, 2, 1, 10, 0, 16))
    o, lse = with_triton.attention_with_lse(q, k, v, False, 1.0)
    assert (o == 0).all()
    assert (lse == -float("inf")).all()
    _, dq, dk, _ = with_gradients(kernel, q, k, v, do)
    assert (dq == 0).all()
    assert dk.shape == k.shape


def test_rows_whose_scores_are_all_minus_infinity_get_zeros(device):
    q, k = (torch.zeros(1, 1, n, 16, device=device) for n in (20, 40))
    v = torch.randn(1, 1, 40, 16, device=device)
    q[..., 3:, 0] = 3e38
    k[..., 0] = -2.0  # their product overflows to −∞
    o, lse = with_triton.attention_with_lse(q, k, v, False, 1.0)
    assert (o[:, :, 3:] == 0).all()
    assert (lse[:, :, 3:] == -float("inf")).all()
    torch.testing.assert_close(o[:, :, :3], v.mean(2, keepdim=True).expand(-1, -1, 3, -1))
    _, dq, _, dv = with_gradients(kernel, q, k, v, torch.ones_like(o), scale=1.0)
    assert not dv.isnan().any()
    assert (dq[:, :, 3:] == 0).all()


def test_huge_logits_do_not_overflow(inputs):
    q, k, v, do = inputs((1, 1, 1, 40, 40, 16), torch.float16, scale=200.0)
    actual = with_gradients(kernel, q, k, v, do / 200, causal=True)
    expected = attention_naive(q.double(), k.double(), v.double(), causal=True)
    assert_matches(actual[:1], (expected,), torch.float16)
    assert all(x.isfinite().all() for x in actual)


def test_nan_stays_in_its_row(inputs):
    q, k, v, _ = inputs((1, 1, 1, 20, 30, 16))
    q[0, 0, 7, 3] = float("nan")
    rows = kernel(q, k, v).isnan().all(-1)[0, 0]
    assert rows.nonzero().flatten().tolist() == [7]


def test_sum_backward_gives_an_expanded_gradient(inputs):
    q, k, v, _ = inputs((1, 2, 2, 20, 30, 16))
    ones = torch.ones(1, device=q.device).expand(q.shape)
    actual = with_gradients(kernel, q, k, v, ones)
    expected = with_gradients(attention_naive, q.double(), k.double(), v.double(), ones.double())
    assert_matches(actual, expected, torch.float32)


def test_expanded_keys_are_read_by_stride_zero(inputs):
    q, k, v, _ = inputs((2, 2, 2, 20, 30, 16))
    k, v = k[:, :1].expand(k.shape), v[:1].expand(v.shape)
    torch.testing.assert_close(kernel(q, k, v), attention_naive(q, k, v), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("head_dim", "dtype", "layout", "as_it_lies"),
    [
        (64, torch.float16, "contiguous", True),
        (64, torch.float16, "transposed", True),
        (64, torch.float16, "sliced", True),
        (40, torch.float16, "contiguous", True),
        (64, torch.float32, "contiguous", True),
        (64, torch.float16, "misaligned", False),
        (33, torch.float16, "contiguous", False),
        (40, torch.float32, "contiguous", False),
        (136, torch.float16, "contiguous", False),
        (144, torch.float16, "contiguous", True),
    ],
)
def test_what_lies_off_the_grid_is_copied_onto_it(inputs, head_dim, dtype, layout, as_it_lies):
    q, *_ = inputs((2, 2, 2, 5, 7, head_dim), dtype, layout)
    assert memory_layout.lie_well(q) == as_it_lies
    assert memory_layout.lie_well(q[:, :, :1, :]) == as_it_lies
    copy = memory_layout.on_grid(q)
    assert memory_layout.lie_well(copy)
    assert torch.equal(copy[..., :head_dim], q)
    assert (copy[..., head_dim:] == 0).all()


def test_rows_repeated_by_stride_zero_are_on_the_grid(inputs):
    q, k, v, _ = inputs((2, 2, 2, 5, 7, 64), torch.float16)
    assert memory_layout.lie_well(q, k[:, :1].expand(k.shape), v[:1].expand(v.shape))


def test_columns_out_of_order_are_copied(inputs):
    q, k, v, _ = inputs((1, 2, 2, 20, 30, 16))
    k = k.transpose(2, 3).contiguous().transpose(2, 3)
    torch.testing.assert_close(kernel(q, k, v), attention_naive(q, k, v), atol=1e-5, rtol=1e-5)


def test_descriptors_and_pointers_agree(inputs, monkeypatch):
    q, k, v, do = inputs((1, 4, 2, 70, 90, 40), torch.float16)
    assert with_triton.can_describe(q, k, v, do)
    described = with_gradients(kernel, q, k, v, do, causal=True)
    monkeypatch.setattr(with_triton, "can_describe", lambda *_: False)
    pointed = with_gradients(kernel, q, k, v, do, causal=True)
    for a, b in zip(described, pointed, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("shape", [(0, 2, 5, 16), (1, 0, 5, 16), (1, 2, 0, 16)])
def test_empty_queries(draw, shape):
    q = draw(shape)
    k = draw((shape[0], 2, 7, 16)) if shape[1] else draw((1, 2, 7, 16))
    assert kernel(q, k, k).shape == shape


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "misaligned"])
@pytest.mark.parametrize(("head_dim", "dtype"), GUARDED)
def test_nothing_is_written_outside_and_everything_inside(inputs, guard_bands, head_dim, dtype, layout, causal):
    q, k, v, do = inputs((1, 2, 1, 70, 37, head_dim), dtype, layout)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    with guard_bands():
        o = kernel(q, k, v, causal=causal)
        gradients = torch.autograd.grad(o, (q, k, v), do)
    assert not any(x.isnan().any() for x in (o, *gradients))


def test_backward_twice_is_bitwise_equal(inputs):
    q, k, v, do = inputs((1, 2, 1, 70, 80, 32), torch.float16)
    first, second = (with_gradients(kernel, q, k, v, do, causal=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_wrong_arguments_are_named(draw):
    q = draw((1, 4, 8, 16))
    with pytest.raises(TypeError, match="different dtypes"):
        kernel(q, q.half(), q)
    with pytest.raises(TypeError, match="float64"):
        kernel(q.double(), q.double(), q.double())
    with pytest.raises(ValueError, match="head_dim is 1 to 256"):
        kernel(*[draw((1, 1, 8, 257))] * 3)
    with pytest.raises(ValueError, match="evenly"):
        kernel(q, q[:, :3], q[:, :3])
    with pytest.raises(ValueError, match="do not match"):
        kernel(q, q, q[:, :, :3])
    with pytest.raises(ValueError, match="batch, heads, length"):
        kernel(q[0], q[0], q[0])
    with pytest.raises(ValueError, match="head_dim is 1 to 256, not 0"):
        kernel(q[..., :0], q[..., :0], q[..., :0])
    with pytest.raises(ValueError, match="batch, heads, length"):
        kernel(q[0, 0, 0, 0], q, q)
    with pytest.raises(ValueError, match="different devices"):
        with_triton.attention_with_lse(q.to("meta"), q, q, False, 1.0)


@pytest.mark.parametrize("name", ["unfused", "tiled", "triton"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 3), (1, 3), (2, 4), (2, 0)])
def test_heads_that_do_not_divide_are_refused(draw, name, heads, kv_heads):
    q, k = draw((1, heads, 5, 16)), draw((1, kv_heads, 5, 16))
    with pytest.raises(ValueError, match=f"{heads} query heads cannot share {kv_heads} key heads evenly"):
        IMPLEMENTATIONS[name](q, k, k)


@pytest.mark.parametrize("name", ["torch", "unfused", "tiled", "triton"])
@pytest.mark.parametrize("kv_heads", [0, 2])
def test_no_heads_are_no_results(draw, name, kv_heads):
    q, k, do = draw((1, 0, 5, 16)), draw((1, kv_heads, 7, 16)), draw((1, 0, 5, 16))
    results = with_gradients(IMPLEMENTATIONS[name], q, k, k, do)
    assert [x.shape for x in results] == [q.shape, q.shape, k.shape, k.shape]
    assert not any(x.any() for x in results)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_gradients_of_some_inputs_are_those_of_all(inputs, wanted):
    q, k, v, do = inputs((1, 2, 1, 10, 12, 16))
    expected = with_gradients(kernel, q, k, v, do, causal=True)[1:]
    leaves = [x.clone().requires_grad_(i in wanted) for i, x in enumerate((q, k, v))]
    kernel(*leaves, causal=True).backward(do)
    for i, (leaf, gradient) in enumerate(zip(leaves, expected, strict=True)):
        assert torch.equal(leaf.grad, gradient) if i in wanted else leaf.grad is None


@pytest.mark.parametrize("scale", [float("inf"), float("nan")])
def test_a_scale_that_is_no_number_gives_none(inputs, scale):
    q, k, v, _ = inputs((1, 1, 1, 5, 6, 16))
    assert kernel(q, k, v, scale=scale).isnan().all()
    assert attention_naive(q, k, v, scale=scale).isnan().all()


@pytest.mark.parametrize("causal", [False, True])
def test_large_logits_with_a_negative_scale(inputs, causal):
    q, k, v, _ = inputs((1, 1, 1, 40, 50, 16), scale=30.0)
    expected = attention_naive(q.double(), k.double(), v.double(), causal=causal, scale=-3.0)
    torch.testing.assert_close(kernel(q, k, v, causal=causal, scale=-3.0).double(), expected, rtol=1e-4, atol=1e-4)


def test_offsets_within_a_tile_never_pass_32_bits():
    """By arithmetic alone: rows so far apart are copied, and no result is laid out like that."""

    def rows_apart(stride):
        return torch.empty(1, 1, 128, 64, dtype=torch.float16, device="meta").as_strided(
            (1, 1, 128, 64), (stride, stride, stride, 1)
        )

    tallest = max(max(t.queries, t.keys) for t in every_tile())
    assert tallest <= memory_layout.TALLEST_TILE
    near, far = rows_apart(2**24 - 1), rows_apart(2**24)
    assert memory_layout.readable(near) is near
    assert memory_layout.readable(far).is_contiguous()
    inside_out = torch.empty(2, 2**23 - 1, 1, 2, device="meta").permute(2, 1, 0, 3)
    assert memory_layout.result_like(inside_out).stride() == inside_out.stride()
    inside_out = torch.empty(2, 2**24, 1, 2, device="meta").permute(2, 1, 0, 3)
    assert memory_layout.result_like(inside_out).is_contiguous()


def kept_bytes(function, shape):
    """What forward keeps for backward, the inputs and the result not counted: by fakes, so of any size."""
    saved = {}

    def keep(x):
        saved[x.untyped_storage()._cdata] = x.untyped_storage().nbytes()
        return x

    with FakeTensorMode():
        inputs = [torch.empty(shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            o = function(*inputs, causal=True)
        for x in (*inputs, o):
            saved.pop(x.untyped_storage()._cdata, None)
    return sum(saved.values())


@pytest.mark.parametrize("length", [256, 4096])
def test_backward_needs_the_row_sums_alone_where_the_formula_keeps_its_weights(length):
    shape = (1, 32, length, 128)
    assert kept_bytes(kernel, shape) == 4 * 32 * length
    weights, mask = 2 * 32 * length**2, length**2
    assert kept_bytes(attention_naive, shape) == weights + mask


def test_second_derivative_raises(inputs):
    q, k, v, _ = inputs((1, 1, 1, 8, 8, 16))
    q.requires_grad_()
    (dq,) = torch.autograd.grad(kernel(q, k, v).square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="attention"):
        dq.sum().backward()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck(inputs, layout):
    q, k, v, do = inputs((1, 2, 1, 20, 30, 16), layout=layout)
    o, lse = with_triton.attention_with_lse(q, k, v, True, 0.3)
    torch.library.opcheck(with_triton.attention_backward, (do, None, q, k, v, o, lse, True, 0.3))
    arguments = (*(x.requires_grad_() for x in (q, k, v)), True, 0.3)
    torch.library.opcheck(with_triton.attention_with_lse, arguments)


def test_compiles_without_a_graph_break(inputs, device):
    @torch.compile(fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")
    def attend(q, k, v):
        return 2 * kernel(q, k, v, causal=True)

    q, k, v, do = inputs((1, 2, 1, 20, 30, 16), layout="transposed")
    compiled = with_gradients(attend, q, k, v, do)
    eager = with_gradients(kernel, q, k, v, 2 * do, causal=True)
    for a, b in zip(compiled[1:], eager[1:], strict=True):
        torch.testing.assert_close(a, b)


def test_best_available_falls_back_to_torch(draw):
    q = draw((1, 2, 8, 16), torch.float64)
    torch.testing.assert_close(attention(q, q, q, causal=True), attention_naive(q, q, q, causal=True))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tile", [1, 7, 64])
def test_tiled_reference_is_exact_whatever_the_tile(draw, causal, tile):
    q, k, v = draw((1, 4, 20, 8), torch.float64), *(draw((1, 2, 30, 8), torch.float64, seed=s) for s in (1, 2))
    expected = attention_naive(q, k, v, causal=causal)
    torch.testing.assert_close(attention_tiled(q, k, v, causal=causal, tile=tile), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_backward_formulas_are_the_gradient(draw, causal):
    q, k, v, do = (draw((1, 2, 20, 8), torch.float64, seed=s) for s in range(4))
    expected = with_gradients(attention_naive, q, k, v, do, causal=causal, scale=0.4)[1:]
    actual = attention_backward_reference(do, q, k, v, causal=causal, scale=0.4)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e)
