"""FlashAttention backward: scores recomputed tile by tile from Q, K and the saved row log-sum-exp L.

    P = e^(S − L),   D = rowsum(dO ∘ O),   dP = dO Vᵀ,   dS = P ∘ (dP − D)
    dV = Pᵀ dO,   dQ = scale · dS K,   dK = scale · dSᵀ Q

Three launches: D; dK and dV, a tile of keys staying put while queries pass by; dQ, the other way round. S and dP are
computed twice, and in exchange every output has one writer: no atomics, the same bits every time.
"""

from __future__ import annotations

import triton
import triton.language as tl

from example_kernels.attention.tiles import LOG2E, find_work, load_tile, store_tile


@triton.jit
def rows_kernel(
    o_ptr, do_ptr, lse_ptr, dlse_ptr, delta_ptr, lse_log2_ptr,
    o_strides, do_strides,
    heads, queries, head_dim, padded,
    HAS_DLSE: tl.constexpr, QUERIES: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Per row: D (less L's own gradient), and L to base 2. Rows of padding get D = 0 and L = ∞, hence P = 0.

    So does a row that saw no key, whose L is −∞.
    """
    tiles = padded // QUERIES
    tile, instance = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    batch, head = instance // heads, instance % heads
    row = tile * QUERIES
    query = row + tl.arange(0, QUERIES)
    inside = query < queries
    o = load_tile(o_ptr, batch, head, row, o_strides, queries, head_dim, QUERIES, WIDTH).to(tl.float32)
    do = load_tile(do_ptr, batch, head, row, do_strides, queries, head_dim, QUERIES, WIDTH).to(tl.float32)
    delta = tl.sum(o * do, axis=1)
    source = instance.to(tl.int64) * queries + query
    if HAS_DLSE:
        delta -= tl.load(dlse_ptr + source, mask=inside, other=0.0)
    lse = tl.load(lse_ptr + source, mask=inside, other=float("-inf"))
    target = instance.to(tl.int64) * padded + query
    tl.store(delta_ptr + target, delta)
    tl.store(lse_log2_ptr + target, tl.where(lse == float("-inf"), float("inf"), lse * LOG2E))


@triton.jit
def _absorb_queries(k, v, q, do, lse_log2, delta_ptrs, dk, dv, scale_log2, key, query, MASKED: tl.constexpr,
                    PRECISION: tl.constexpr):  # fmt: skip
    """Add what one tile of queries contributes to dK (without the scale) and dV; all scores are transposed here.

    In wide heads D is loaded only where it is wanted: held through three products it would not fit the registers.
    """
    WIDE: tl.constexpr = q.shape[1] > 128
    if not WIDE:
        delta = tl.load(delta_ptrs)
    scores = tl.dot(k, q.T, input_precision=PRECISION)
    weights = tl.exp2(scores * scale_log2 - lse_log2[None, :])
    if MASKED:
        weights = tl.where(query[None, :] >= key[:, None], weights, 0.0)
    dv = tl.dot(weights.to(do.dtype), do, dv, input_precision=PRECISION)
    d_weights = tl.dot(v, do.T, input_precision=PRECISION)
    if WIDE:
        delta = tl.load(delta_ptrs)
    d_scores = weights * (d_weights - delta[None, :])
    dk = tl.dot(d_scores.to(q.dtype), q, dk, input_precision=PRECISION)
    return dk, dv


@triton.jit
def keys_kernel(
    q, k, v, do, dk_ptr, dv_ptr, delta_ptr, lse_log2_ptr,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides,
    scale, batch_heads, kv_heads, group, queries, keys, head_dim, padded, cohort,
    CAUSAL: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
    PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """dK and dV of one tile of KEYS rows, summed over the `group` query heads that share its head."""
    tiles = tl.cdiv(keys, KEYS)
    tile, instance = find_work(tiles, batch_heads, cohort)
    tile = tiles - 1 - tile  # the first keys are seen by most queries
    batch, kv_head = instance // kv_heads, instance % kv_heads
    start = tile * KEYS
    key = start + tl.arange(0, KEYS)
    scale_log2 = scale * LOG2E

    k_tile = load_tile(k, batch, kv_head, start, k_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
    v_tile = load_tile(v, batch, kv_head, start, v_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
    dk = tl.zeros([KEYS, WIDTH], tl.float32)
    dv = tl.zeros([KEYS, WIDTH], tl.float32)
    for member in range(group):
        head = kv_head * group + member
        rows = tl.cast(batch * kv_heads * group + head, tl.int64) * padded
        first = start // QUERIES * QUERIES if CAUSAL else 0
        for row in range(first, queries, QUERIES):
            query = row + tl.arange(0, QUERIES)
            q_tile = load_tile(q, batch, head, row, q_strides, queries, head_dim, QUERIES, WIDTH, DESCRIPTORS)
            do_tile = load_tile(do, batch, head, row, do_strides, queries, head_dim, QUERIES, WIDTH, DESCRIPTORS)
            lse_log2 = tl.load(lse_log2_ptr + rows + query)
            delta_ptrs = delta_ptr + rows + query
            dk, dv = _absorb_queries(
                k_tile, v_tile, q_tile, do_tile, lse_log2, delta_ptrs, dk, dv, scale_log2, key, query, CAUSAL, PRECISION
            )
    store_tile(dk_ptr, dk * scale, batch, kv_head, start, dk_strides, keys, head_dim, KEYS, WIDTH)
    store_tile(dv_ptr, dv, batch, kv_head, start, dv_strides, keys, head_dim, KEYS, WIDTH)


@triton.jit
def _absorb_keys(q, do, k, v, lse_log2, delta, dq, scale_log2, query, key, keys, MASKED: tl.constexpr,
                 CAUSAL: tl.constexpr, PRECISION: tl.constexpr):  # fmt: skip
    """Add what one tile of keys contributes to dQ, without the scale."""
    scores = tl.dot(q, k.T, input_precision=PRECISION)
    weights = tl.exp2(scores * scale_log2 - lse_log2[:, None])
    if MASKED:
        visible = (key < keys)[None, :]
        if CAUSAL:
            visible &= query[:, None] >= key[None, :]
        weights = tl.where(visible, weights, 0.0)
    d_weights = tl.dot(do, v.T, input_precision=PRECISION)
    d_scores = weights * (d_weights - delta[:, None])
    return tl.dot(d_scores.to(k.dtype), k, dq, input_precision=PRECISION)


@triton.jit
def queries_kernel(
    q, k, v, do, dq_ptr, delta_ptr, lse_log2_ptr,
    q_strides, k_strides, v_strides, do_strides, dq_strides,
    scale, batch_heads, heads, group, queries, keys, head_dim, padded, cohort,
    CAUSAL: tl.constexpr, TAIL: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr,
    PRECISION: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """dQ of one tile of QUERIES rows."""
    tile, instance = find_work(tl.cdiv(queries, QUERIES), batch_heads, cohort)
    batch, head = instance // heads, instance % heads
    kv_head = head // group
    row = tile * QUERIES
    query = row + tl.arange(0, QUERIES)
    scale_log2 = scale * LOG2E

    q_tile = load_tile(q, batch, head, row, q_strides, queries, head_dim, QUERIES, WIDTH, DESCRIPTORS)
    do_tile = load_tile(do, batch, head, row, do_strides, queries, head_dim, QUERIES, WIDTH, DESCRIPTORS)
    rows = instance.to(tl.int64) * padded + query
    lse_log2 = tl.load(lse_log2_ptr + rows)
    delta = tl.load(delta_ptr + rows)
    dq = tl.zeros([QUERIES, WIDTH], tl.float32)

    # Tiles that nothing cuts need no mask. In wide heads a mask costs little, and a second loop would cost registers.
    whole = 0
    if WIDTH <= 128 or not (CAUSAL or TAIL):
        whole = keys // KEYS * KEYS
        if CAUSAL:
            whole = tl.minimum(whole, row // KEYS * KEYS)
        for start in range(0, whole, KEYS):
            k_tile = load_tile(k, batch, kv_head, start, k_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
            v_tile = load_tile(v, batch, kv_head, start, v_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
            key = start + tl.arange(0, KEYS)
            dq = _absorb_keys(
                q_tile, do_tile, k_tile, v_tile, lse_log2, delta, dq, scale_log2, query, key, keys, False, CAUSAL,
                PRECISION,
            )  # fmt: skip
    if CAUSAL or TAIL:
        end = tl.minimum(keys, row + QUERIES) if CAUSAL else keys
        for start in range(whole, end, KEYS):
            k_tile = load_tile(k, batch, kv_head, start, k_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
            v_tile = load_tile(v, batch, kv_head, start, v_strides, keys, head_dim, KEYS, WIDTH, DESCRIPTORS)
            key = start + tl.arange(0, KEYS)
            dq = _absorb_keys(
                q_tile, do_tile, k_tile, v_tile, lse_log2, delta, dq, scale_log2, query, key, keys, True, CAUSAL,
                PRECISION,
            )  # fmt: skip
    store_tile(dq_ptr, dq * scale, batch, head, row, dq_strides, queries, head_dim, QUERIES, WIDTH)
