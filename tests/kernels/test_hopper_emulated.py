"""The Hopper kernels' own source, run on the CPU partition by partition: results, and that no one waits in vain."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from example_kernels.attention.reference import attention_naive, attention_tiled_with_lse
from example_kernels.support import gluon_emulation
from example_kernels.support.gluon_emulation import Descriptor, EmulationError, Pointer, launch, load_emulated

PACKAGE = "example_kernels.attention"
WIDTH = 16
LOG2E = 1.4426950408889634


@pytest.fixture(scope="module")
def emulated():
    return load_emulated(f"{PACKAGE}.hopper_forward", f"{PACKAGE}.hopper_backward")


@st.composite
def problems(draw):
    """Batch, heads, key heads, queries, keys: on the tiles, off them, and shorter than one."""
    lengths = st.sampled_from([1, 63, 64, 65, 127, 128, 129, 200, 256, 300, 400])
    group, kv_heads = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]))
    return draw(st.integers(1, 2)), group * kv_heads, kv_heads, draw(lengths), draw(lengths)


def make_inputs(problem, seed, head_dim=WIDTH):
    batch, heads, kv_heads, queries, keys = problem
    generator = torch.Generator().manual_seed(seed)
    shapes = [(heads, queries), (kv_heads, keys), (kv_heads, keys), (heads, queries)]
    return [torch.randn(batch, h, n, head_dim, generator=generator) for h, n in shapes]


def tiles(x, rows):
    return Descriptor(x, [1, 1, rows, WIDTH])


def run_forward(emulated, q, k, v, causal, programs, cohort=2):
    batch, heads, queries, _ = q.shape
    o, lse = torch.full_like(q, float("nan")), torch.full(q.shape[:3], float("nan"))
    launch(
        emulated["hopper_forward_kernel"], programs,
        tiles(q, 64), tiles(k, 128), tiles(v, 128), tiles(o, 64), Pointer(lse.view(-1)),
        0.3, batch * heads, heads, heads // k.shape[1], queries, k.shape[2], cohort,
        CAUSAL=causal, KEYS=128, STAGES=2, WIDTH=WIDTH,
    )  # fmt: skip
    return o, lse


def run_backward(emulated, q, k, v, do, causal, programs, cohort=2):
    batch, heads, queries, _ = q.shape
    kv_heads, keys = k.shape[1], k.shape[2]
    o, lse = attention_tiled_with_lse(q, k, v, causal=causal, scale=0.3)
    padded = -(-queries // 128) * 128
    delta, lse_log2 = torch.zeros(batch * heads, padded), torch.full((batch * heads, padded), float("inf"))
    delta[:, :queries] = (o * do).sum(-1).view(-1, queries)
    # As the kernel for D writes it: a row that sees nothing has weights of 2^(S − ∞).
    lse_log2[:, :queries] = torch.where(lse == -float("inf"), float("inf"), lse * LOG2E).view(-1, queries)
    dq, dk, dv = (torch.full_like(x, float("nan")) for x in (q, k, v))
    launch(
        emulated["hopper_keys_kernel"], programs,
        tiles(q, 64), tiles(k, 64), tiles(v, 64), tiles(do, 64), tiles(dk, 64), tiles(dv, 64),
        Descriptor(lse_log2, [1, 64]), Descriptor(delta, [1, 64]),
        0.3, batch * kv_heads, kv_heads, heads // kv_heads, queries, keys, cohort,
        CAUSAL=causal, QUERIES=64, STAGES=2, WIDTH=WIDTH,
    )  # fmt: skip
    launch(
        emulated["hopper_queries_kernel"], programs,
        tiles(q, 64), tiles(k, 128), tiles(v, 128), tiles(do, 64), tiles(dq, 64),
        Pointer(lse_log2.view(-1)), Pointer(delta.view(-1)),
        0.3, batch * heads, heads, heads // kv_heads, queries, keys, padded, cohort,
        CAUSAL=causal, KEYS=128, STAGES=2, WIDTH=WIDTH,
    )  # fmt: skip
    return dq, dk, dv


@settings(max_examples=12, deadline=None)
@given(problems(), st.booleans(), st.integers(1, 5), st.integers(1, 3), st.integers(0, 9))
def test_forward(emulated, problem, causal, programs, cohort, seed):
    q, k, v, _ = make_inputs(problem, seed)
    o, lse = run_forward(emulated, q, k, v, causal, programs, cohort)
    expected, expected_lse = attention_tiled_with_lse(q, k, v, causal=causal, scale=0.3)
    torch.testing.assert_close(o, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(lse, expected_lse, rtol=1e-4, atol=1e-5)


@settings(max_examples=12, deadline=None)
@given(problems(), st.booleans(), st.integers(1, 5), st.integers(1, 3), st.integers(0, 9))
def test_backward(emulated, problem, causal, programs, cohort, seed):
    q, k, v, do = make_inputs(problem, seed)
    actual = run_backward(emulated, q, k, v, do, causal, programs, cohort)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = torch.autograd.grad(attention_naive(*leaves, causal=causal, scale=0.3), leaves, do)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)


def test_heads_narrower_than_the_tile_are_filled_with_zeros(emulated):
    q, k, v, _ = make_inputs((1, 2, 1, 100, 150), seed=0, head_dim=10)
    o, _ = run_forward(emulated, q, k, v, True, programs=2)
    torch.testing.assert_close(o, attention_naive(q, k, v, causal=True, scale=0.3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_rows_of_minus_infinity_huge_logits_and_nan(emulated, causal):
    q, k, v, _ = make_inputs((1, 1, 1, 200, 300), seed=0)
    q[0, 0, 10:20], k[..., 0] = 0.0, -2.0
    q[0, 0, 10:20, 0] = 3e38  # their product overflows to −∞ with every key
    q[0, 0, 70] *= 1e4
    q[0, 0, 190, 3] = float("nan")
    o, lse = run_forward(emulated, q, k, v, causal, programs=2)
    expected, expected_lse = attention_tiled_with_lse(q, k, v, causal=causal, scale=0.3)
    assert (o[0, 0, 10:20] == 0).all()
    assert (lse[0, 0, 10:20] == -float("inf")).all()
    assert o[0, 0, 190].isnan().all()
    torch.testing.assert_close(o, expected, rtol=1e-3, atol=1e-4, equal_nan=True)
    torch.testing.assert_close(lse, expected_lse, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("causal", [False, True])
def test_rows_of_minus_infinity_have_no_gradient_and_leave_others_theirs(emulated, causal):
    q, k, v, do = make_inputs((1, 1, 1, 200, 150), seed=0)
    k[..., 0], q[0, 0, 10:20] = -2.0, 0.0
    expected = run_backward(emulated, q, k, v, do.index_fill(2, torch.arange(10, 20), 0.0), causal, programs=2)
    q[0, 0, 10:20, 0] = 3e38
    actual = run_backward(emulated, q, k, v, do, causal, programs=2)
    assert (actual[0][:, :, 10:20] == 0).all()
    expected[0][:, :, 10:20] = 0
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)


def test_a_missing_arrival_is_a_deadlock(monkeypatch):
    """The emulation can fail: a consumer that never frees its buffers leaves the producer waiting."""
    monkeypatch.setattr(gluon_emulation, "DEADLOCK_S", 0.5)
    broken = load_emulated(f"{PACKAGE}.hopper_forward")
    broken["mbarrier"].arrive = lambda barrier, count: None
    q, k, v, _ = make_inputs((1, 1, 1, 64, 600), seed=0)
    with pytest.raises(EmulationError, match="in vain"):
        run_forward(broken, q, k, v, False, programs=1)


def test_a_missing_wait_is_seen_as_nan():
    """The emulation can fail: values read before their copy is complete are not values."""
    broken = load_emulated(f"{PACKAGE}.hopper_forward")
    broken["mbarrier"].wait = lambda barrier, parity: None
    broken["tma"].async_copy_global_to_shared = lambda descriptor, corner, barrier, memory: None
    q, k, v, _ = make_inputs((1, 1, 1, 64, 64), seed=0)
    assert run_forward(broken, q, k, v, False, programs=1)[0].isnan().any()
