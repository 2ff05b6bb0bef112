"""FlashAttention forward: exact attention in one pass, the score matrix never leaving the chip.

    S = scale · Q Kᵀ (masked: −∞),   P = e^(S − L),   O = P V,   L = log Σ e^S (row by row)

A program holds a tile of queries and walks over the keys and values, tile by tile, with the online softmax: running
maximum m and sum l, and O rescaled by e^(m_old − m_new) when the maximum grows. Causal tiles above the diagonal are
never visited. O and L (float32) are all that is kept: O(N) memory. Keys and values are read N / tile times, from the
L2 cache if they fit it.
Dao, "FlashAttention-2", arXiv:2307.08691.
"""

from __future__ import annotations

import triton
import triton.language as tl

from example_kernels.attention.tiles import LN2, LOG2E, find_work, load_tile, store_tile


@triton.jit
def _absorb(q, k, v, acc, maximum, total, scale_log2, query, key, keys, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
            PRECISION: tl.constexpr):  # fmt: skip
    """Fold one tile of keys and values into the accumulator; logarithms are to base 2, scale included."""
    scores = tl.dot(q, k.T, input_precision=PRECISION)
    if MASKED:
        visible = (key < keys)[None, :]
        if CAUSAL:
            visible &= query[:, None] >= key[None, :]
        scores = tl.where(visible, scores, float("-inf"))
    grown = tl.maximum(maximum, tl.max(scores, axis=1) * scale_log2)
    # A row that has seen no key yet: any finite shift gives weights of 0, where −∞ would give ∞ − ∞.
    shift = tl.where(grown == float("-inf"), 0.0, grown)
    weights = tl.exp2(scores * scale_log2 - shift[:, None])
    rescale = tl.exp2(maximum - shift)
    total = total * rescale + tl.sum(weights, axis=1)
    acc = tl.dot(weights.to(v.dtype), v, acc * rescale[:, None], input_precision=PRECISION)
    return acc, grown, total


@triton.jit
def forward_kernel(
    q, k, v, o_ptr, lse_ptr,
    q_strides, k_strides, v_strides, o_strides,
    scale, batch_heads, heads, group, queries, keys, head_dim, cohort,
    CAUSAL: tl.constexpr, TAIL: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
    PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """One tile of QUERIES rows: O into `o_ptr`, the row log-sum-exp L into `lse_ptr`, (batch, head, length) float32.

    TAIL says that the last tile of keys is partial.
    """
    tile, instance = find_work(tl.cdiv(queries, QUERIES), batch_heads, cohort)
    batch, head = instance // heads, instance % heads
    kv_head = head // group
    row = tile * QUERIES
    query = row + tl.arange(0, QUERIES)
    scale_log2 = scale * LOG2E

    q_tile = load_tile(q, batch, head, row, q_strides, queries, head_dim, QUERIES, WIDTH, DESCRIPTORS)
    acc = tl.zeros([QUERIES, WIDTH], tl.float32)
    maximum = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)

    whole = keys // KEYS * KEYS
    if CAUSAL:
        whole = tl.minimum(whole, row // KEYS * KEYS)
    for start in range(0, whole, KEYS):
        k_tile = load_tile(k, batch, kv_head, start, k_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
        v_tile = load_tile(v, batch, kv_head, start, v_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
        key = start + tl.arange(0, KEYS)
        acc, maximum, total = _absorb(
            q_tile, k_tile, v_tile, acc, maximum, total, scale_log2, query, key, keys, False, CAUSAL, PRECISION
        )
    if CAUSAL or TAIL:
        end = tl.minimum(keys, row + QUERIES) if CAUSAL else keys
        for start in range(whole, end, KEYS):
            k_tile = load_tile(k, batch, kv_head, start, k_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
            v_tile = load_tile(v, batch, kv_head, start, v_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
            key = start + tl.arange(0, KEYS)
            acc, maximum, total = _absorb(
                q_tile, k_tile, v_tile, acc, maximum, total, scale_log2, query, key, keys, True, CAUSAL, PRECISION
            )

    o_tile = acc * tl.where(total == 0.0, 0.0, 1.0 / total)[:, None]
    store_tile(o_ptr, o_tile, batch, head, row, o_strides, queries, head_dim, QUERIES, WIDTH)
    lse = tl.where(total == 0.0, float("-inf"), (maximum + tl.log2(total)) * LN2)
    tl.store(lse_ptr + instance.to(tl.int64) * queries + query, lse, mask=query < queries)
