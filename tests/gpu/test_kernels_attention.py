"""What only a GPU can show of the attention kernels; the rest of their tests are in tests/kernels and run there too."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
# Only now: importing triton settles whether kernels are interpreted, which tests/kernels must decide without a GPU.
pytest.importorskip("triton")

# torch remarks on contexts and precision that are not ours to set.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

from example_kernels.attention import IMPLEMENTATIONS, attention, with_triton  # noqa: E402
from example_kernels.attention.layout import lie_well  # noqa: E402
from example_kernels.attention.reference import attention_naive, attention_tiled  # noqa: E402

kernel = IMPLEMENTATIONS["triton"]
HALF_TYPES = (torch.float16, torch.bfloat16)
VANISHING = 1e-9


def inputs(batch, heads, kv_heads, queries, keys, head_dim, dtype, seed=0):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    shapes = [(heads, queries), (kv_heads, keys), (kv_heads, keys), (heads, queries)]
    return [
        torch.randn(batch, h, n, head_dim, device="cuda", dtype=dtype, generator=generator, requires_grad=i < 3)
        for i, (h, n) in enumerate(shapes)
    ]


def results(function, q, k, v, do, **options):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    o = function(q, k, v, **options)
    return (o.detach(), *torch.autograd.grad(o, (q, k, v), do))


def relative_errors(actual, expected, do):
    """Errors of output, dQ, dK and dV by their norms.

    Where a query sees one key, dQ and dK vanish: what is left is the rounding of dP - D, sums as long as those of dO
    and dV, which then give the scale.
    """
    scales = [e.norm() for e in expected]
    scales[1] = scales[1] if scales[1] > VANISHING else do.double().norm()
    scales[2] = scales[2] if scales[2] > VANISHING else scales[3]
    return [((a.double() - e).norm() / scale).item() for a, e, scale in zip(actual, expected, scales, strict=True)]


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "problem",
    [
        (2, 2, 2, 256, 256, 128),
        (1, 4, 2, 300, 300, 128),
        (1, 4, 1, 333, 77, 64),
        (1, 2, 2, 77, 333, 64),
        (2, 2, 1, 1, 513, 128),
        (1, 2, 2, 513, 1, 64),
        (1, 2, 2, 200, 260, 80),
        (1, 2, 2, 200, 130, 40),
        (1, 2, 2, 130, 200, 256),
        (1, 3, 3, 1024, 1024, 96),
        (2, 4, 2, 300, 300, 200),
        (1, 2, 1, 257, 193, 136),
    ],
)
def test_forward_and_gradients_match_float64(problem, causal, dtype):
    q, k, v, do = inputs(*problem, dtype)
    expected = results(attention_naive, *(x.double() for x in (q, k, v, do)), causal=causal)
    bound = 4e-3 if dtype == torch.float16 else 2e-2
    assert max(relative_errors(results(kernel, q, k, v, do, causal=causal), expected, do)) < bound


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_long_sequences(head_dim, causal):
    q, k, v, do = inputs(1, 8, 2, 4096, 4096, head_dim, torch.bfloat16)
    expected = results(attention_naive, *(x.float() for x in (q, k, v, do)), causal=causal)
    actual = results(kernel, q, k, v, do, causal=causal)
    assert max(relative_errors(actual, [e.double() for e in expected], do)) < 2e-2


@pytest.mark.parametrize("causal", [False, True])
def test_layout_with_heads_inside_lengths(causal):
    q, k, v, do = (
        x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in inputs(2, 4, 4, 300, 300, 64, torch.bfloat16)
    )
    expected = results(attention_naive, *(x.double() for x in (q, k, v, do)), causal=causal)
    assert max(relative_errors(results(kernel, q, k, v, do, causal=causal), expected, do)) < 2e-2


@pytest.mark.parametrize("head_dim", [33, 64, 128, 200, 251])
def test_misaligned_rows_are_copied_onto_the_grid(head_dim):
    q, k, v, do = (x.detach()[..., 1:] for x in inputs(1, 2, 2, 300, 300, head_dim + 1, torch.bfloat16))
    assert not lie_well(q)
    expected = results(attention_naive, *(x.double() for x in (q, k, v, do)), causal=True)
    assert max(relative_errors(results(kernel, q, k, v, do, causal=True), expected, do)) < 2e-2


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_the_same_bits_every_time(head_dim, causal):
    q, k, v, do = inputs(2, 8, 4, 1000, 1000, head_dim, torch.bfloat16)
    first = results(kernel, q, k, v, do, causal=causal)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, results(kernel, q, k, v, do, causal=causal), strict=True))


def test_nothing_is_written_past_the_end():
    q, k, v, _ = inputs(1, 2, 2, 70, 70, 64, torch.bfloat16)
    room = torch.full((1, 2, 80, 64), 7.0, device="cuda", dtype=torch.bfloat16)
    lse = torch.full((1, 2, 70), float("nan"), device="cuda")
    with_triton.launch_forward(q.detach(), k.detach(), v.detach(), room[:, :, :70], lse, False, 0.125)
    assert (room[:, :, 70:] == 7.0).all()
    assert not lse.isnan().any()


@pytest.mark.parametrize("step", [2**23, 2**24, 2**25])
def test_offsets_past_two_to_the_31(step):
    """Rows far apart: a tile of them spans just less than 32 bits, or more."""
    q, k, v, do = inputs(1, 1, 1, 64, 300, 64, torch.bfloat16)
    wide = torch.empty(299 * step + 64, device="cuda", dtype=torch.bfloat16)
    assert wide.numel() > 2**31
    far = wide.as_strided(k.shape, (0, 0, step, 1))
    far.copy_(k.detach())
    for near, distant in zip(results(kernel, q, k, v, do), results(kernel, q, far, v, do), strict=True):
        torch.testing.assert_close(distant, near)


def test_more_instances_than_a_grid_dimension():
    q, k, v, do = inputs(1100, 64, 64, 2, 3, 64, torch.float16)
    expected = results(attention_naive, *(x.float() for x in (q, k, v, do)))
    assert max(relative_errors(results(kernel, q, k, v, do), [e.double() for e in expected], do)) < 4e-3


def test_runs_on_the_current_stream():
    q, k, v, do = inputs(1, 2, 2, 256, 256, 64, torch.bfloat16)
    expected = results(kernel, q, k, v, do)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        late = q.detach() * 1.0
        actual = results(kernel, late, k, v, do)
    stream.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


def test_float32_is_exact_to_rounding():
    q, k, v, do = inputs(1, 2, 2, 500, 500, 64, torch.float32)
    expected = results(attention_naive, *(x.double() for x in (q, k, v, do)))
    assert max(relative_errors(results(kernel, q, k, v, do), expected, do)) < 1e-6


def off_the_grid(x):
    return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lay_out", [lambda x: x, off_the_grid, lambda x: x.repeat_interleave(2, -1)[..., ::2]])
@pytest.mark.parametrize("problem", [(2, 4, 4, 300, 260, 64), (1, 6, 2, 260, 300, 33), (1, 2, 2, 70, 70, 200)])
def test_float32_by_default_is_exact_and_holds_no_score_matrix(problem, lay_out, causal):
    q, k, v, do = (lay_out(x.detach()) for x in inputs(*problem, torch.float32))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        actual = results(attention, q, k, v, do, causal=causal)
    expected = results(attention_naive, *(x.double() for x in (q, k, v, do)), causal=causal)
    assert max(relative_errors(actual, expected, do)) < 2e-6


@pytest.mark.parametrize("scale", [-0.3, 0.0, 30.0])
def test_float32_by_default_takes_any_scale(scale):
    q, k, v, do = inputs(1, 4, 2, 100, 90, 48, torch.float32)
    actual = results(attention, q, k, v, do, scale=scale)
    expected = results(attention_naive, *(x.double() for x in (q, k, v, do)), scale=scale)
    assert ((actual[0] - expected[0]).norm() / expected[0].norm()).item() < 1e-3


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 80, 128, 200, 256])
def test_rows_of_minus_infinity_huge_logits_and_nan(head_dim, causal):
    q, k, v, do = (x.detach() for x in inputs(1, 2, 2, 300, 260, head_dim, torch.bfloat16))
    k[..., 0], q[:, :, 10:20] = -2.0, 0.0
    q[:, :, 10:20, 0] = 3e38  # their product overflows to −∞ with every key
    q[:, :, 70] *= 1e4
    o, *gradients = results(kernel, q, k, v, do, causal=causal, scale=1.0)
    expected = attention_tiled(q.float(), k.float(), v.float(), causal=causal, scale=1.0)
    assert (o[:, :, 10:20] == 0).all()
    assert (gradients[0][:, :, 10:20] == 0).all()
    assert not any(x.isnan().any() for x in gradients)
    torch.testing.assert_close(o.float(), expected, rtol=2e-2, atol=2e-2)
    q[:, :, 190, 3] = float("nan")
    rows = kernel(q, k, v, causal=causal, scale=1.0).isnan().all(-1)
    assert rows.nonzero()[:, 2].tolist() == [190, 190]


LENGTHS = (4096, 8192, 16384)


def peaks_of(function):
    """Peak memory of forward and backward beyond the inputs, and an input's bytes, for each of LENGTHS."""

    def peak(length):
        q, k, v, do = inputs(1, 4, 4, length, length, 64, torch.bfloat16)
        # What an earlier call left in reference cycles (compiling may) would count as ours until it is collected.
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        results(function, q, k, v, do)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before, q.nbytes

    peak(1024)
    return zip(*(peak(length) for length in LENGTHS), strict=True)


def growth(peaks):
    """How much more the second doubling of the length adds than the first: constants cancel."""
    short, middle, long = peaks
    return (long - middle) / (middle - short)


def test_memory_grows_linearly_with_length():
    peaks, sizes = peaks_of(kernel)
    assert 1.9 < growth(peaks) < 2.1
    # The output, three gradients, and row sums: no room for anything of length².
    assert all(peak < 5 * size for peak, size in zip(peaks, sizes, strict=True))


@pytest.mark.parametrize("length", [1024, 8192])
def test_forward_saves_length_over_head_dim(length):
    """The score matrix is length / head_dim times an output; beside the output there are the row sums alone."""
    q, k, v, _ = (x.detach() for x in inputs(1, 4, 4, length, length, 64, torch.bfloat16))
    kernel(q, k, v)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kernel(q, k, v)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    score_matrix = 4 * length**2 * q.element_size()
    assert 0.95 * length / 64 < score_matrix / peak <= length / 64


def test_memory_of_the_whole_score_matrix_grows_with_its_square():
    peaks, _ = peaks_of(attention_naive)
    assert growth(peaks) > 3.5


def test_picks_triton_on_cuda_tensors():
    q, k, v, _ = inputs(1, 2, 2, 100, 100, 64, torch.bfloat16)
    assert torch.equal(attention(q, k, v), kernel(q, k, v))
    with torch.autocast("cuda", torch.bfloat16):
        assert torch.equal(attention(q.float(), k.float(), v.float()), kernel(q, k, v))
    wide = torch.randn(1, 1, 8, 300, device="cuda", dtype=torch.bfloat16)
    assert attention(wide, wide, wide).shape == wide.shape


@pytest.mark.parametrize("name", ["flash", "cudnn", "compiled"])
def test_rivals_agree(name):
    q, k, v, do = inputs(1, 4, 4, 256, 256, 64, torch.bfloat16)
    expected = results(attention_naive, *(x.double() for x in (q, k, v, do)), causal=True)
    assert max(relative_errors(results(IMPLEMENTATIONS[name], q, k, v, do, causal=True), expected, do)) < 2e-2


def test_mixed_devices_are_refused():
    q, k, v, _ = inputs(1, 2, 2, 8, 8, 16, torch.float16)
    with pytest.raises(ValueError, match="cpu"):
        kernel(q, k.cpu(), v)
