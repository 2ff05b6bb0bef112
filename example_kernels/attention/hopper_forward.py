"""FlashAttention forward for Hopper, its warps specialised: one loads, two groups of four compute.

The arithmetic is that of `forward_kernel`; what differs is who waits for whom. A producer warp keeps the copy engine
busy, always a few tiles ahead, from one work item to the next. Each consumer group owns 64 queries and issues the
next scores S = Q Kᵀ together with the current P V, so that its exponentials run while the matrix unit works;
the two groups fall out of step and fill each other's gaps.
Shah et al., "FlashAttention-3", arXiv:2407.08608.
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

LOG2E = gl.constexpr(1.4426950408889634)
LN2 = gl.constexpr(0.6931471805599453)
CONSUMERS = gl.constexpr(2)
ROWS = gl.constexpr(64)


@gluon.jit
def find_work(work, tiles, instances, cohort):
    """The order of `tiles.find_work`, for a work item that need not be a program."""
    first = work // (tiles * cohort) * cohort
    size = gl.minimum(cohort, instances - first)
    place = work - first * tiles
    return tiles - 1 - place // size, first + place % size


@gluon.jit
def key_tiles(row, keys, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    """Return how many tiles of keys the queries from `row` on see, and how many of them need no mask."""
    end = keys
    whole = keys // KEYS
    if CAUSAL:
        end = gl.minimum(keys, row + CONSUMERS * ROWS)
        whole = gl.minimum(whole, row // KEYS)
    return (end + KEYS - 1) // KEYS, whole


@gluon.jit
def make_barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    """Return COUNT barriers in shared memory, each of which completes after ARRIVALS arrivals."""
    barriers = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(COUNT):
        mbarrier.init(barriers.index(i), count=ARRIVALS)
    return barriers


@gluon.jit
def _produce(
    q, k, v, q_smem, k_smem, v_smem, q_full, q_empty, k_full, k_empty, v_full, v_empty,
    works, tiles, instances, heads, group, keys, cohort,
    CAUSAL: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
):  # fmt: skip
    """Load tiles of keys and values, last to first, and each work item's queries, as buffers come free."""
    step = 0
    turn = 0
    for work in range(gl.program_id(0), works, gl.num_programs(0)):
        tile, instance = find_work(work, tiles, instances, cohort)
        batch, head = instance // heads, instance % heads
        kv_head = head // group
        row = tile * (CONSUMERS * ROWS)
        count, _ = key_tiles(row, keys, KEYS, CAUSAL)
        mbarrier.wait(q_empty, (turn & 1) ^ 1)
        mbarrier.expect(q_full, CONSUMERS * q.block_type.nbytes)
        for consumer in gl.static_range(CONSUMERS):
            tma.async_copy_global_to_shared(q, [batch, head, row + consumer * ROWS, 0], q_full, q_smem.index(consumer))
        turn += 1
        for index in range(count):
            start = (count - 1 - index) * KEYS
            slot = step % STAGES
            free = ((step // STAGES) & 1) ^ 1
            mbarrier.wait(k_empty.index(slot), free)
            mbarrier.expect(k_full.index(slot), k.block_type.nbytes)
            tma.async_copy_global_to_shared(k, [batch, kv_head, start, 0], k_full.index(slot), k_smem.index(slot))
            mbarrier.wait(v_empty.index(slot), free)
            mbarrier.expect(v_full.index(slot), v.block_type.nbytes)
            tma.async_copy_global_to_shared(v, [batch, kv_head, start, 0], v_full.index(slot), v_smem.index(slot))
            step += 1


@gluon.jit
def _weigh(scores, maximum, total, scale_log2, query, start, keys, MASKED: gl.constexpr, CAUSAL: gl.constexpr,
           KEYS: gl.constexpr, S_LAYOUT: gl.constexpr):  # fmt: skip
    """Turn scores into weights of the online softmax; return them, the factor for what came before, and the state."""
    if MASKED:
        key = start + gl.arange(0, KEYS, gl.SliceLayout(0, S_LAYOUT))
        visible = (key < keys)[None, :]
        if CAUSAL:
            visible = visible & (query[:, None] >= key[None, :])
        scores = gl.where(visible, scores, float("-inf"))
    grown = gl.maximum(maximum, gl.max(scores, axis=1) * scale_log2)
    shift = gl.where(grown == float("-inf"), 0.0, grown)
    weights = gl.exp2(scores * scale_log2 - shift[:, None])
    rescale = gl.exp2(maximum - shift)
    total = total * rescale + gl.sum(weights, axis=1)
    return weights, rescale, grown, total


@gluon.jit
def _step(
    q_tile, k_smem, v_smem, k_full, k_empty, v_full, v_empty, weights, acc, maximum, total, scale_log2, query, start,
    keys, step, MASKED: gl.constexpr, CAUSAL: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr,
    S_LAYOUT: gl.constexpr, O_LAYOUT: gl.constexpr, P_LAYOUT: gl.constexpr,
):  # fmt: skip
    """Issue tile `step`'s scores and the previous tile's P V together; weigh the one while the other runs."""
    slot = step % STAGES
    mbarrier.wait(k_full.index(slot), (step // STAGES) & 1)
    blank = gl.zeros([ROWS, KEYS], gl.float32, S_LAYOUT)
    scores = warpgroup_mma(q_tile, k_smem.index(slot).reshape([KEYS, q_tile.shape[1]]).permute((1, 0)), blank,
                           use_acc=False, is_async=True)  # fmt: skip
    before = (step - 1) % STAGES
    acc = warpgroup_mma(weights, v_smem.index(before).reshape([KEYS, q_tile.shape[1]]), acc, is_async=True)
    scores = warpgroup_mma_wait(1, [scores])
    mbarrier.arrive(k_empty.index(slot), count=1)
    fresh, rescale, maximum, total = _weigh(
        scores, maximum, total, scale_log2, query, start, keys, MASKED, CAUSAL, KEYS, S_LAYOUT
    )
    fresh = gl.convert_layout(fresh.to(q_tile.dtype), P_LAYOUT)
    # This tile's values are waited for here already: the loop in that wait keeps the assembler from moving the wait for
    # P V up before the exponentials, which would undo the overlap.
    mbarrier.wait(v_full.index(slot), (step // STAGES) & 1)
    # Waiting on the old weights too keeps their registers from being written while they are read.
    acc, fresh, _ = warpgroup_mma_wait(0, [acc, fresh, weights])
    mbarrier.arrive(v_empty.index(before), count=1)
    acc = acc * gl.convert_layout(rescale, gl.SliceLayout(1, O_LAYOUT))[:, None]
    return fresh, acc, maximum, total


@gluon.jit
def _consume(
    o, lse_ptr, q_smem, k_smem, v_smem, q_full, q_empty, k_full, k_empty, v_full, v_empty,
    scale, works, tiles, instances, heads, queries, keys, cohort,
    CONSUMER: gl.constexpr, CAUSAL: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """Compute this group's 64 rows of every work item."""
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    q_buffer = q_smem.index(CONSUMER)
    q_tile = q_buffer.reshape([ROWS, WIDTH])
    scale_log2 = scale * LOG2E
    step = 0
    turn = 0
    for work in range(gl.program_id(0), works, gl.num_programs(0)):
        tile, instance = find_work(work, tiles, instances, cohort)
        batch, head = instance // heads, instance % heads
        first = tile * (CONSUMERS * ROWS)
        row = first + CONSUMER * ROWS
        query = row + gl.arange(0, ROWS, gl.SliceLayout(1, S_LAYOUT))
        count, whole = key_tiles(first, keys, KEYS, CAUSAL)

        mbarrier.wait(q_full, turn & 1)
        turn += 1
        slot = step % STAGES
        mbarrier.wait(k_full.index(slot), (step // STAGES) & 1)
        blank = gl.zeros([ROWS, KEYS], gl.float32, S_LAYOUT)
        scores = warpgroup_mma(q_tile, k_smem.index(slot).reshape([KEYS, WIDTH]).permute((1, 0)), blank, use_acc=False,
                               is_async=True)  # fmt: skip
        scores = warpgroup_mma_wait(0, [scores])
        mbarrier.arrive(k_empty.index(slot), count=1)
        maximum = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, S_LAYOUT))
        total = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, S_LAYOUT))
        fresh, _, maximum, total = _weigh(
            scores, maximum, total, scale_log2, query, (count - 1) * KEYS, keys, True, CAUSAL, KEYS, S_LAYOUT
        )
        weights = gl.convert_layout(fresh.to(q_tile.dtype), P_LAYOUT)
        acc = gl.zeros([ROWS, WIDTH], gl.float32, O_LAYOUT)
        mbarrier.wait(v_full.index(slot), (step // STAGES) & 1)
        step += 1

        masked = gl.minimum(gl.maximum(count - whole, 1), count)
        if CAUSAL:
            for index in range(1, masked):
                start = (count - 1 - index) * KEYS
                weights, acc, maximum, total = _step(
                    q_tile, k_smem, v_smem, k_full, k_empty, v_full, v_empty, weights, acc, maximum, total,
                    scale_log2, query, start, keys, step, True, CAUSAL, KEYS, STAGES, S_LAYOUT, O_LAYOUT, P_LAYOUT,
                )  # fmt: skip
                step += 1
        for index in range(masked, count):
            start = (count - 1 - index) * KEYS
            weights, acc, maximum, total = _step(
                q_tile, k_smem, v_smem, k_full, k_empty, v_full, v_empty, weights, acc, maximum, total,
                scale_log2, query, start, keys, step, False, CAUSAL, KEYS, STAGES, S_LAYOUT, O_LAYOUT, P_LAYOUT,
            )  # fmt: skip
            step += 1

        slot = (step - 1) % STAGES
        acc = warpgroup_mma(weights, v_smem.index(slot).reshape([KEYS, WIDTH]), acc, is_async=True)
        acc = warpgroup_mma_wait(0, [acc])
        mbarrier.arrive(v_empty.index(slot), count=1)

        factor = gl.where(total == 0.0, 0.0, 1.0 / total)
        acc = acc * gl.convert_layout(factor, gl.SliceLayout(1, O_LAYOUT))[:, None]
        q_tile.store(acc.to(q_tile.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(o, [batch, head, row, 0], q_buffer)
        lse = gl.where(total == 0.0, float("-inf"), (maximum + gl.log2(total)) * LN2)
        gl.store(lse_ptr + instance.to(gl.int64) * queries + query, lse, mask=query < queries)
        tma.store_wait(0)
        mbarrier.arrive(q_empty, count=1)


@gluon.jit
def hopper_forward_kernel(
    q, k, v, o, lse_ptr,
    scale, instances, heads, group, queries, keys, cohort,
    CAUSAL: gl.constexpr, KEYS: gl.constexpr, STAGES: gl.constexpr, WIDTH: gl.constexpr,
):  # fmt: skip
    """A resident program takes every num_programs-th work item: 128 queries of one head. Needs at least one key.

    q, k, v and o are tensor descriptors over (batch, heads, length, head_dim); queries in tiles of 64.
    """
    q_smem = gl.allocate_shared_memory(q.dtype, [CONSUMERS] + q.block_type.shape, q.layout)
    k_smem = gl.allocate_shared_memory(k.dtype, [STAGES] + k.block_type.shape, k.layout)
    v_smem = gl.allocate_shared_memory(v.dtype, [STAGES] + v.block_type.shape, v.layout)
    q_full, q_empty = make_barriers(1, 1).index(0), make_barriers(1, CONSUMERS).index(0)
    k_full, k_empty = make_barriers(STAGES, 1), make_barriers(STAGES, CONSUMERS)
    v_full, v_empty = make_barriers(STAGES, 1), make_barriers(STAGES, CONSUMERS)
    fence_async_shared()

    tiles = (queries + CONSUMERS * ROWS - 1) // (CONSUMERS * ROWS)
    works = tiles * instances
    gl.warp_specialize(
        [
            (_consume, (o, lse_ptr, q_smem, k_smem, v_smem, q_full, q_empty, k_full, k_empty, v_full, v_empty, scale,
                        works, tiles, instances, heads, queries, keys, cohort, 0, CAUSAL, KEYS, STAGES, WIDTH)),
            (_consume, (o, lse_ptr, q_smem, k_smem, v_smem, q_full, q_empty, k_full, k_empty, v_full, v_empty, scale,
                        works, tiles, instances, heads, queries, keys, cohort, 1, CAUSAL, KEYS, STAGES, WIDTH)),
            (_produce, (q, k, v, q_smem, k_smem, v_smem, q_full, q_empty, k_full, k_empty, v_full, v_empty, works,
                        tiles, instances, heads, group, keys, cohort, CAUSAL, KEYS, STAGES)),
        ],
        [4, 1],
        [240, 24],
    )  # fmt: skip
