"""FlashAttention backward for Hopper, its warps specialised; the formulas are those of `backward_kernels`.

A producer warp streams tiles through shared memory, two consumer groups of four warps compute. In `keys` a group owns
64 keys, whose dK and dV stay in its registers while queries pass by; in `queries` it owns 64 queries and their dQ.
Scores are transposed in `keys`, so that P and dS are ready in registers as the left factor of the next product.
"""

# ruff: noqa: SIM113, RUF005 (the kernel language has neither enumerate nor unpacking in lists)

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from example_kernels.attention.hopper_forward import CONSUMERS, LOG2E, ROWS, find_work, key_tiles, make_barriers

OWNED = gl.constexpr(128)


@gluon.jit
def _query_tiles(start, queries, QUERIES: gl.constexpr, CAUSAL: gl.constexpr):
    """Return the first tile of queries that sees any key from `start` on, the first that sees all, and the end."""
    count = (queries + QUERIES - 1) // QUERIES
    first = 0
    clear = 0
    if CAUSAL:
        first = gl.minimum(start // QUERIES, count)
        clear = gl.minimum((start + OWNED + QUERIES - 1) // QUERIES, count)
    return first, clear, count


@gluon.jit
def _produce_for_keys(
    q, k, v, do, lse_log2, delta, q_smem, k_smem, v_smem, do_smem, lse_smem, delta_smem,
    own_full, own_empty, q_full, do_full, empty,
    works, tiles, instances, kv_heads, group, queries, cohort,
    CAUSAL: gl.constexpr, QUERIES: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Load each work item's keys and values, then all queries and output gradients that see them."""
    step = 0
    turn = 0
    for work in range(gl.program_id(0), works, gl.num_programs(0)):
        tile, instance = find_work(work, tiles, instances, cohort)
        batch, kv_head = instance // kv_heads, instance % kv_heads
        start = (tiles - 1 - tile) * OWNED
        mbarrier.wait(own_empty, (turn & 1) ^ 1)
        turn += 1
        mbarrier.expect(own_full, 2 * CONSUMERS * k.block_type.nbytes)
        for consumer in gl.static_range(CONSUMERS):
            place = [batch, kv_head, start + consumer * ROWS, 0]
            tma.async_copy_global_to_shared(k, place, own_full, k_smem.index(consumer))
            tma.async_copy_global_to_shared(v, place, own_full, v_smem.index(consumer))
        first, _, count = _query_tiles(start, queries, QUERIES, CAUSAL)
        for member in range(group):
            head = kv_head * group + member
            for index in range(first, count):
                slot = step % STAGES
                mbarrier.wait(empty.index(slot), ((step // STAGES) & 1) ^ 1)
                place = [batch, head, index * QUERIES, 0]
                row = [instance * group + member, index * QUERIES]
                mbarrier.expect(q_full.index(slot), q.block_type.nbytes + lse_log2.block_type.nbytes)
                tma.async_copy_global_to_shared(q, place, q_full.index(slot), q_smem.index(slot))
                tma.async_copy_global_to_shared(lse_log2, row, q_full.index(slot), lse_smem.index(slot))
                mbarrier.expect(do_full.index(slot), do.block_type.nbytes + delta.block_type.nbytes)
                tma.async_copy_global_to_shared(do, place, do_full.index(slot), do_smem.index(slot))
                tma.async_copy_global_to_shared(delta, row, do_full.index(slot), delta_smem.index(slot))
                step += 1


@gluon.jit
def _keys_step(
    k_tile, v_tile, q_smem, do_smem, lse_smem, delta_smem, q_full, do_full, empty, dk, dv, scale_log2, own, row, step,
    MASKED: gl.constexpr, QUERIES: gl.constexpr, STAGES: gl.constexpr,
    S_LAYOUT: gl.constexpr, P_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Add one tile of queries to dK and dV."""
    WIDTH: gl.constexpr = k_tile.shape[1]
    slot = step % STAGES
    full = (step // STAGES) & 1
    q_tile = q_smem.index(slot).reshape([QUERIES, WIDTH])
    do_tile = do_smem.index(slot).reshape([QUERIES, WIDTH])
    blank = gl.zeros([ROWS, QUERIES], gl.float32, S_LAYOUT)
    mbarrier.wait(q_full.index(slot), full)
    scores = warpgroup_mma(k_tile, q_tile.permute((1, 0)), blank, use_acc=False, is_async=True)
    mbarrier.wait(do_full.index(slot), full)
    d_weights = warpgroup_mma(v_tile, do_tile.permute((1, 0)), blank, use_acc=False, is_async=True)
    scores = warpgroup_mma_wait(1, [scores])
    weights = gl.exp2(scores * scale_log2 - lse_smem.index(slot).load(S_LAYOUT))
    if MASKED:
        key = own + gl.arange(0, ROWS, gl.SliceLayout(1, S_LAYOUT))
        query = row + gl.arange(0, QUERIES, gl.SliceLayout(0, S_LAYOUT))
        weights = gl.where(query[None, :] >= key[:, None], weights, 0.0)
    left = gl.convert_layout(weights.to(k_tile.dtype), P_LAYOUT)
    dv = warpgroup_mma(left, do_tile, dv, is_async=True)
    d_weights = warpgroup_mma_wait(1, [d_weights])
    d_scores = gl.convert_layout(
        (weights * (d_weights - delta_smem.index(slot).load(S_LAYOUT))).to(k_tile.dtype), P_LAYOUT
    )
    dk = warpgroup_mma(d_scores, q_tile, dk, is_async=True)
    dv, dk, _, _ = warpgroup_mma_wait(0, [dv, dk, left, d_scores])
    mbarrier.arrive(empty.index(slot), count=1)
    return dk, dv


@gluon.jit
def _consume_for_keys(
    dk_out, dv_out, q_smem, k_smem, v_smem, do_smem, lse_smem, delta_smem,
    own_full, own_empty, q_full, do_full, empty,
    scale, works, tiles, instances, kv_heads, group, queries, cohort,
    CONSUMER: gl.constexpr, CAUSAL: gl.constexpr, QUERIES: gl.constexpr, STAGES: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """Compute dK and dV of this group's 64 keys of every work item."""
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, QUERIES, 16])
    D_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, D_LAYOUT, 2)
    k_tile = k_smem.index(CONSUMER).reshape([ROWS, WIDTH])
    v_tile = v_smem.index(CONSUMER).reshape([ROWS, WIDTH])
    scale_log2 = scale * LOG2E
    step = 0
    turn = 0
    for work in range(gl.program_id(0), works, gl.num_programs(0)):
        tile, instance = find_work(work, tiles, instances, cohort)
        batch, kv_head = instance // kv_heads, instance % kv_heads
        start = (tiles - 1 - tile) * OWNED
        own = start + CONSUMER * ROWS
        first, clear, count = _query_tiles(start, queries, QUERIES, CAUSAL)
        dk = gl.zeros([ROWS, WIDTH], gl.float32, D_LAYOUT)
        dv = gl.zeros([ROWS, WIDTH], gl.float32, D_LAYOUT)
        mbarrier.wait(own_full, turn & 1)
        turn += 1
        for _ in range(group):
            if CAUSAL:
                for index in range(first, clear):
                    dk, dv = _keys_step(
                        k_tile, v_tile, q_smem, do_smem, lse_smem, delta_smem, q_full, do_full, empty,
                        dk, dv, scale_log2, own, index * QUERIES, step, True, QUERIES, STAGES, S_LAYOUT, P_LAYOUT,
                    )  # fmt: skip
                    step += 1
            for index in range(clear, count):
                dk, dv = _keys_step(
                    k_tile, v_tile, q_smem, do_smem, lse_smem, delta_smem, q_full, do_full, empty,
                    dk, dv, scale_log2, own, index * QUERIES, step, False, QUERIES, STAGES, S_LAYOUT, P_LAYOUT,
                )  # fmt: skip
                step += 1
        k_tile.store((dk * scale).to(k_tile.dtype))
        v_tile.store(dv.to(k_tile.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(dk_out, [batch, kv_head, own, 0], k_smem.index(CONSUMER))
        tma.async_copy_shared_to_global(dv_out, [batch, kv_head, own, 0], v_smem.index(CONSUMER))
        tma.store_wait(0)
        mbarrier.arrive(own_empty, count=1)


@gluon.jit
def hopper_keys_kernel(
    q, k, v, do, dk, dv, lse_log2, delta,
    scale, instances, kv_heads, group, queries, keys, cohort,
    CAUSAL: gl.constexpr, QUERIES: gl.constexpr, STAGES: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """dK and dV, 128 keys of one head a work item, summed over the query heads that share it.

    Descriptors are over (batch, heads, length, head_dim): q and do in tiles of QUERIES rows, the others of 64;
    lse_log2 and delta are over (batch · heads, padded length), in rows of QUERIES.
    """
    lse_smem = gl.allocate_shared_memory(gl.float32, [STAGES] + lse_log2.block_type.shape, lse_log2.layout)
    delta_smem = gl.allocate_shared_memory(gl.float32, [STAGES] + delta.block_type.shape, delta.layout)
    q_smem = gl.allocate_shared_memory(q.dtype, [STAGES] + q.block_type.shape, q.layout)
    do_smem = gl.allocate_shared_memory(q.dtype, [STAGES] + do.block_type.shape, do.layout)
    k_smem = gl.allocate_shared_memory(q.dtype, [CONSUMERS] + k.block_type.shape, k.layout)
    v_smem = gl.allocate_shared_memory(q.dtype, [CONSUMERS] + v.block_type.shape, v.layout)
    own_full, own_empty = make_barriers(1, 1).index(0), make_barriers(1, CONSUMERS).index(0)
    q_full, do_full, empty = make_barriers(STAGES, 1), make_barriers(STAGES, 1), make_barriers(STAGES, CONSUMERS)
    fence_async_shared()
    tiles = (keys + OWNED - 1) // OWNED
    works = tiles * instances
    gl.warp_specialize(
        [
            (_consume_for_keys, (dk, dv, q_smem, k_smem, v_smem, do_smem, lse_smem, delta_smem, own_full, own_empty,
                                 q_full, do_full, empty, scale, works, tiles, instances, kv_heads, group, queries,
                                 cohort, 0, CAUSAL, QUERIES, STAGES, WIDTH)),
            (_consume_for_keys, (dk, dv, q_smem, k_smem, v_smem, do_smem, lse_smem, delta_smem, own_full, own_empty,
                                 q_full, do_full, empty, scale, works, tiles, instances, kv_heads, group, queries,
                                 cohort, 1, CAUSAL, QUERIES, STAGES, WIDTH)),
            (_produce_for_keys, (q, k, v, do, lse_log2, delta, q_smem, k_smem, v_smem, do_smem, lse_smem, delta_smem,
                                 own_full, own_empty, q_full, do_full, empty, works, tiles, instances, kv_heads, group,
                                 queries, cohort, CAUSAL, QUERIES, STAGES)),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip


@gluon.jit
def _produce_for_queries(
    q, k, v, do, q_smem, k_smem, v_smem, do_smem, own_full, own_empty, k_full, v_full, k_empty, v_empty,
    works, tiles, instances, heads, group, keys, cohort,
    CAUSAL: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Load each work item's queries and output gradients, then all keys and values that they see, last to first."""
    step = 0
    turn = 0
    for work in range(gl.program_id(0), works, gl.num_programs(0)):
        tile, instance = find_work(work, tiles, instances, cohort)
        batch, head = instance // heads, instance % heads
        kv_head = head // group
        row = tile * OWNED
        mbarrier.wait(own_empty, (turn & 1) ^ 1)
        turn += 1
        mbarrier.expect(own_full, 2 * CONSUMERS * q.block_type.nbytes)
        for consumer in gl.static_range(CONSUMERS):
            place = [batch, head, row + consumer * ROWS, 0]
            tma.async_copy_global_to_shared(q, place, own_full, q_smem.index(consumer))
            tma.async_copy_global_to_shared(do, place, own_full, do_smem.index(consumer))
        count, _ = key_tiles(row, keys, KEYS, CAUSAL)
        for index in range(count):
            slot = step % STAGES
            free = ((step // STAGES) & 1) ^ 1
            place = [batch, kv_head, (count - 1 - index) * KEYS, 0]
            mbarrier.wait(k_empty.index(slot), free)
            mbarrier.expect(k_full.index(slot), k.block_type.nbytes)
            tma.async_copy_global_to_shared(k, place, k_full.index(slot), k_smem.index(slot))
            mbarrier.wait(v_empty.index(slot), free)
            mbarrier.expect(v_full.index(slot), v.block_type.nbytes)
            tma.async_copy_global_to_shared(v, place, v_full.index(slot), v_smem.index(slot))
            step += 1


@gluon.jit
def _queries_step(
    q_tile, do_tile, k_smem, v_smem, k_full, v_full, k_empty, v_empty, lse_log2, delta, dq, scale_log2, query, start,
    keys, step, MASKED: gl.constexpr, CAUSAL: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
    S_LAYOUT: gl.constexpr, P_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Add one tile of keys to dQ."""
    WIDTH: gl.constexpr = q_tile.shape[1]
    slot = step % STAGES
    full = (step // STAGES) & 1
    k_tile = k_smem.index(slot).reshape([KEYS, WIDTH])
    v_tile = v_smem.index(slot).reshape([KEYS, WIDTH])
    blank = gl.zeros([ROWS, KEYS], gl.float32, S_LAYOUT)
    mbarrier.wait(k_full.index(slot), full)
    scores = warpgroup_mma(q_tile, k_tile.permute((1, 0)), blank, use_acc=False, is_async=True)
    mbarrier.wait(v_full.index(slot), full)
    d_weights = warpgroup_mma(do_tile, v_tile.permute((1, 0)), blank, use_acc=False, is_async=True)
    scores = warpgroup_mma_wait(1, [scores])
    weights = gl.exp2(scores * scale_log2 - lse_log2[:, None])
    if MASKED:
        key = start + gl.arange(0, KEYS, gl.SliceLayout(0, S_LAYOUT))
        visible = (key < keys)[None, :]
        if CAUSAL:
            visible = visible & (query[:, None] >= key[None, :])
        weights = gl.where(visible, weights, 0.0)
    d_weights, weights = warpgroup_mma_wait(0, [d_weights, weights])
    mbarrier.arrive(v_empty.index(slot), count=1)
    d_scores = gl.convert_layout((weights * (d_weights - delta[:, None])).to(q_tile.dtype), P_LAYOUT)
    dq = warpgroup_mma(d_scores, k_tile, dq, is_async=True)
    dq, _ = warpgroup_mma_wait(0, [dq, d_scores])
    mbarrier.arrive(k_empty.index(slot), count=1)
    return dq


@gluon.jit
def _consume_for_queries(
    dq_out, lse_log2_ptr, delta_ptr, q_smem, k_smem, v_smem, do_smem,
    own_full, own_empty, k_full, v_full, k_empty, v_empty,
    scale, works, tiles, instances, heads, keys, padded, cohort,
    CONSUMER: gl.constexpr, CAUSAL: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """Compute dQ of this group's 64 queries of every work item."""
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    D_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, D_LAYOUT, 2)
    q_tile = q_smem.index(CONSUMER).reshape([ROWS, WIDTH])
    do_tile = do_smem.index(CONSUMER).reshape([ROWS, WIDTH])
    scale_log2 = scale * LOG2E
    step = 0
    turn = 0
    for work in range(gl.program_id(0), works, gl.num_programs(0)):
        tile, instance = find_work(work, tiles, instances, cohort)
        batch, head = instance // heads, instance % heads
        row = tile * OWNED + CONSUMER * ROWS
        query = row + gl.arange(0, ROWS, gl.SliceLayout(1, S_LAYOUT))
        rows = instance.to(gl.int64) * padded
        lse_log2 = gl.load(lse_log2_ptr + rows + query)
        delta = gl.load(delta_ptr + rows + query)
        dq = gl.zeros([ROWS, WIDTH], gl.float32, D_LAYOUT)
        count, whole = key_tiles(tile * OWNED, keys, KEYS, CAUSAL)
        masked = count - whole
        mbarrier.wait(own_full, turn & 1)
        turn += 1
        for index in range(masked):
            dq = _queries_step(
                q_tile, do_tile, k_smem, v_smem, k_full, v_full, k_empty, v_empty, lse_log2, delta, dq, scale_log2,
                query, (count - 1 - index) * KEYS, keys, step, True, CAUSAL, KEYS, STAGES, S_LAYOUT, P_LAYOUT,
            )  # fmt: skip
            step += 1
        for index in range(masked, count):
            dq = _queries_step(
                q_tile, do_tile, k_smem, v_smem, k_full, v_full, k_empty, v_empty, lse_log2, delta, dq, scale_log2,
                query, (count - 1 - index) * KEYS, keys, step, False, CAUSAL, KEYS, STAGES, S_LAYOUT, P_LAYOUT,
            )  # fmt: skip
            step += 1
        q_tile.store((dq * scale).to(q_tile.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(dq_out, [batch, head, row, 0], q_smem.index(CONSUMER))
        tma.store_wait(0)
        mbarrier.arrive(own_empty, count=1)


@gluon.jit
def hopper_queries_kernel(
    q, k, v, do, dq, lse_log2_ptr, delta_ptr,
    scale, instances, heads, group, queries, keys, padded, cohort,
    CAUSAL: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """dQ, 128 queries of one head a work item.

    Descriptors are over (batch, heads, length, head_dim): k and v in tiles of KEYS rows, the others of 64.
    """
    q_smem = gl.allocate_shared_memory(q.dtype, [CONSUMERS] + q.block_type.shape, q.layout)
    do_smem = gl.allocate_shared_memory(q.dtype, [CONSUMERS] + do.block_type.shape, do.layout)
    k_smem = gl.allocate_shared_memory(q.dtype, [STAGES] + k.block_type.shape, k.layout)
    v_smem = gl.allocate_shared_memory(q.dtype, [STAGES] + v.block_type.shape, v.layout)
    own_full, own_empty = make_barriers(1, 1).index(0), make_barriers(1, CONSUMERS).index(0)
    k_full, v_full = make_barriers(STAGES, 1), make_barriers(STAGES, 1)
    k_empty, v_empty = make_barriers(STAGES, CONSUMERS), make_barriers(STAGES, CONSUMERS)
    fence_async_shared()
    tiles = (queries + OWNED - 1) // OWNED
    works = tiles * instances
    gl.warp_specialize(
        [
            (_consume_for_queries, (dq, lse_log2_ptr, delta_ptr, q_smem, k_smem, v_smem, do_smem, own_full, own_empty,
                                    k_full, v_full, k_empty, v_empty, scale, works, tiles, instances, heads, keys,
                                    padded, cohort, 0, CAUSAL, KEYS, STAGES, WIDTH)),
            (_consume_for_queries, (dq, lse_log2_ptr, delta_ptr, q_smem, k_smem, v_smem, do_smem, own_full, own_empty,
                                    k_full, v_full, k_empty, v_empty, scale, works, tiles, instances, heads, keys,
                                    padded, cohort, 1, CAUSAL, KEYS, STAGES, WIDTH)),
            (_produce_for_queries, (q, k, v, do, q_smem, k_smem, v_smem, do_smem, own_full, own_empty, k_full, v_full,
                                    k_empty, v_empty, works, tiles, instances, heads, group, keys, cohort, CAUSAL,
                                    KEYS, STAGES)),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
