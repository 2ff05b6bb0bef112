"""Attention on Triton: what the kernels accept, their launches, and the custom operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from example_kernels.attention import on_hopper
from example_kernels.attention.backward_kernels import keys_kernel, queries_kernel, rows_kernel
from example_kernels.attention.configurations import (
    MAXIMUM_HEAD_DIM,
    Tiles,
    forward_tiles,
    keys_tiles,
    queries_tiles,
)
from example_kernels.attention.forward_kernel import forward_kernel
from example_kernels.attention.layout import (
    can_describe,
    descriptor_strides,
    lie_well,
    on_grid,
    readable,
    result_like,
    row_strides,
)
from example_kernels.attention.reference import default_scale
from example_kernels.support.ahead_of_time import Shipped
from example_kernels.support.autocast import narrowed_by_autocast
from example_kernels.support.availability import KERNEL_DTYPES, check_triton_device
from example_kernels.support.forward_mode import refuse_forward_mode

SMALLEST_SCALE, LARGEST_SCALE = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max / 2
ROW_PADDING = 128
ROWS_A_PROGRAM = 32
COHORT_BYTES = 24 * 2**20


def check_arguments(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise TypeError or ValueError for what the kernels cannot do, naming it."""
    for x in (q, k, v):
        check_triton_device(x)
    _check_alike(q, k, v)


def _check_alike(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise what `check_arguments` does, as far as fake tensors can tell."""
    if not q.device == k.device == v.device:
        raise ValueError(f"q, k and v are on different devices: {q.device}, {k.device}, {v.device}")
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k and v have different dtypes: {q.dtype}, {k.dtype}, {v.dtype}")
    if q.dtype not in KERNEL_DTYPES:
        raise TypeError(f"attention kernels take float32, float16 and bfloat16, not {q.dtype}")
    _check_shapes(q.shape, k.shape, v.shape)


def _check_shapes(q: torch.Size, k: torch.Size, v: torch.Size) -> None:
    if not len(q) == len(k) == len(v) == 4:
        raise ValueError(f"q, k and v are (batch, heads, length, head_dim), got {tuple(q)}, {tuple(k)}, {tuple(v)}")
    if k != v or q[0] != k[0] or q[3] != k[3]:
        raise ValueError(f"shapes do not match: q {tuple(q)}, k {tuple(k)}, v {tuple(v)}")
    if q[1] != k[1] and (k[1] == 0 or q[1] % k[1] != 0):
        raise ValueError(f"{q[1]} query heads cannot share {k[1]} key heads evenly")
    if not 1 <= q[3] <= MAXIMUM_HEAD_DIM:
        raise ValueError(f"head_dim is 1 to {MAXIMUM_HEAD_DIM}, not {q[3]}")


def describe(x: torch.Tensor, rows: int, width: int) -> TensorDescriptor:
    """Return a descriptor of `x` in tiles of `rows` rows of one head."""
    return TensorDescriptor(x, list(x.shape), descriptor_strides(x), [1, 1, rows, width])


def head_width(head_dim: int) -> int:
    """Return the width of a tile: matrix units want powers of two from 16 on."""
    return max(16, triton.next_power_of_2(head_dim))


def cohort_of(instance_bytes: int) -> int:
    """Return how many heads' worth of `instance_bytes` stay in the L2 cache together."""
    return max(1, COHORT_BYTES // max(1, instance_bytes))


def _precision(x: torch.Tensor) -> str:
    """float32 stays exact; in 16 bits there is nothing to choose."""
    return "ieee" if x.dtype == torch.float32 else "tf32"


def launch_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float,
    tiles: Tiles | None = None,
) -> None:
    """Write attention into `o` and the row log-sum-exp into `lse`."""
    batch, heads, queries, head_dim = q.shape
    keys, width = k.shape[2], head_width(head_dim)
    cohort = cohort_of(2 * keys * head_dim * q.element_size() * k.shape[1] // heads)
    described = can_describe(q, k, v)
    if tiles is None and described and can_describe(o) and on_hopper.takes_forward(q, k):
        on_hopper.launch_forward(q, k, v, o, lse, causal, scale, cohort)
        return
    tiles = tiles or forward_tiles(width, q.element_size(), described)
    sources = (q, k, v)
    if described:
        sources = (describe(q, tiles.queries, width), describe(k, tiles.keys, width), describe(v, tiles.keys, width))
    instances = batch * heads
    grid = (triton.cdiv(queries, tiles.queries) * instances,)
    forward_kernel[grid](
        *sources, o, lse,
        row_strides(q), row_strides(k), row_strides(v), row_strides(o),
        scale, instances, heads, heads // k.shape[1], queries, keys, head_dim, cohort,
        CAUSAL=causal, TAIL=keys % tiles.keys != 0, QUERIES=tiles.queries, KEYS=tiles.keys, WIDTH=width,
        PRECISION=_precision(q), DESCRIPTORS=described, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


def launch_rows(
    o: torch.Tensor, do: torch.Tensor, lse: torch.Tensor, dlse: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return D and L to base 2, (batch·heads, queries rounded up): what both of the other kernels read."""
    batch, heads, queries, head_dim = o.shape
    padded = triton.cdiv(queries, ROW_PADDING) * ROW_PADDING
    delta = torch.empty((batch * heads, padded), device=o.device, dtype=torch.float32)
    lse_log2 = torch.empty_like(delta)
    width = head_width(head_dim)
    rows_kernel[(padded // ROWS_A_PROGRAM * batch * heads,)](
        o, do, lse, lse if dlse is None else dlse, delta, lse_log2,
        row_strides(o), row_strides(do), heads, queries, head_dim, padded,
        HAS_DLSE=dlse is not None, QUERIES=ROWS_A_PROGRAM, WIDTH=width, num_warps=4,
    )  # fmt: skip
    return delta, lse_log2


def launch_keys(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor],
    dk: torch.Tensor,
    dv: torch.Tensor,
    causal: bool,
    scale: float,
    tiles: Tiles | None = None,
) -> None:
    """Write dK and dV."""
    batch, heads, queries, head_dim = q.shape
    kv_heads, keys, width = k.shape[1], k.shape[2], head_width(head_dim)
    cohort = cohort_of(2 * queries * head_dim * q.element_size() * heads // kv_heads)
    described = can_describe(q, k, v, do)
    if tiles is None and described and can_describe(dk, dv) and on_hopper.takes_keys(q, k):
        on_hopper.launch_keys(q, k, v, do, rows, dk, dv, causal, scale, cohort)
        return
    tiles = tiles or keys_tiles(width, q.element_size(), described)
    sources = (q, k, v, do)
    if described:
        heights = (tiles.queries, tiles.keys, tiles.keys, tiles.queries)
        sources = tuple(describe(x, height, width) for x, height in zip(sources, heights, strict=True))
    instances, group = batch * kv_heads, heads // kv_heads
    grid = (triton.cdiv(keys, tiles.keys) * instances,)
    keys_kernel[grid](
        *sources, dk, dv, *rows,
        *(row_strides(x) for x in (q, k, v, do, dk, dv)),
        scale, instances, kv_heads, group, queries, keys, head_dim, rows[0].shape[1], cohort,
        CAUSAL=causal, QUERIES=tiles.queries, KEYS=tiles.keys, WIDTH=width,
        PRECISION=_precision(q), DESCRIPTORS=described, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


def launch_queries(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    rows: tuple[torch.Tensor, torch.Tensor],
    dq: torch.Tensor,
    causal: bool,
    scale: float,
    tiles: Tiles | None = None,
) -> None:
    """Write dQ."""
    batch, heads, queries, head_dim = q.shape
    keys, width = k.shape[2], head_width(head_dim)
    cohort = cohort_of(2 * keys * head_dim * q.element_size() * k.shape[1] // heads)
    described = can_describe(q, k, v, do)
    if tiles is None and described and can_describe(dq) and on_hopper.takes_queries(q, k):
        on_hopper.launch_queries(q, k, v, do, rows, dq, causal, scale, cohort)
        return
    tiles = tiles or queries_tiles(width, q.element_size(), described)
    sources = (q, k, v, do)
    if described:
        heights = (tiles.queries, tiles.keys, tiles.keys, tiles.queries)
        sources = tuple(describe(x, height, width) for x, height in zip(sources, heights, strict=True))
    instances = batch * heads
    grid = (triton.cdiv(queries, tiles.queries) * instances,)
    queries_kernel[grid](
        *sources, dq, *rows,
        *(row_strides(x) for x in (q, k, v, do, dq)),
        scale, instances, heads, heads // k.shape[1], queries, keys, head_dim, rows[0].shape[1], cohort,
        CAUSAL=causal, TAIL=keys % tiles.keys != 0, QUERIES=tiles.queries, KEYS=tiles.keys, WIDTH=width,
        PRECISION=_precision(q), DESCRIPTORS=described, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip


@torch.library.custom_op("example_kernels::attention_triton", mutates_args=())
def attention_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention of `q` (batch, heads, queries, head_dim) over `k` and `v` (batch, kv_heads, keys, head_dim).

    The second result is the row log-sum-exp of the scaled scores, (batch, heads, queries), float32.
    `scale` is positive (or NaN). Raises TypeError or ValueError for what the kernels cannot do.
    """
    check_arguments(q, k, v)
    o = result_like(q)
    lse = torch.empty(q.shape[:3], device=q.device, dtype=torch.float32)
    if q.numel() > 0:
        with torch.cuda.device_of(q):
            _forward(q, k, v, o, lse, causal, scale)
    return o, lse


def _forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, lse: torch.Tensor, causal: bool, scale: float
) -> None:
    """Launch on the tensors where they lie, or else on copies."""
    q, k, v = (readable(x) for x in (q, k, v))
    if lie_well(q, k, v, o):
        launch_forward(q, k, v, o, lse, causal, scale)
        return
    q, k, v = (on_grid(x) for x in (q, k, v))
    wide = torch.empty_like(q)
    launch_forward(q, k, v, wide, lse, causal, scale)
    o.copy_(wide[..., : o.shape[3]])


@torch.library.custom_op("example_kernels::attention_triton_backward", mutates_args=())
def attention_backward(
    do: torch.Tensor,
    dlse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dQ, dK and dV."""
    check_arguments(q, k, v)
    dq, dk, dv = result_like(q), result_like(k), result_like(v)
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), dk.zero_(), dv.zero_()
    with torch.cuda.device_of(q):
        rows = (lse.contiguous(), None if dlse is None else dlse.contiguous())
        _backward((q, k, v, o, do), rows, (dq, dk, dv), causal, scale)
    return dq, dk, dv


def _backward(
    inputs: tuple[torch.Tensor, ...],
    rows: tuple[torch.Tensor, torch.Tensor | None],
    results: tuple[torch.Tensor, ...],
    causal: bool,
    scale: float,
) -> None:
    """Launch on q, k, v, o and do for dq, dk and dv where they lie, or else on copies; `rows`: L and its gradient."""
    inputs = tuple(readable(x) for x in inputs)
    if not lie_well(*inputs, *results):
        inputs = tuple(on_grid(x) for x in inputs)
        wide = tuple(torch.empty_like(x) for x in inputs[:3])
        _backward(inputs, rows, wide, causal, scale)
        for result, copy in zip(results, wide, strict=True):
            result.copy_(copy[..., : result.shape[3]])
        return
    q, k, v, o, do = inputs
    dq, dk, dv = results
    delta_and_lse = launch_rows(o, do, *rows)
    launch_keys(q, k, v, do, delta_and_lse, dk, dv, causal, scale)
    launch_queries(q, k, v, do, delta_and_lse, dq, causal, scale)


@attention_with_lse.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    _check_alike(q, k, v)
    return result_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@attention_backward.register_fake
def _(
    _do: torch.Tensor, _dlse: torch.Tensor | None, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return result_like(q), result_like(k), result_like(v)


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    q, k, v, ctx.causal, ctx.scale = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, do: torch.Tensor | None, dlse: torch.Tensor | None):  # type: ignore[no-untyped-def]
    q, k, v, o, lse = ctx.saved_tensors
    do = torch.zeros_like(o) if do is None else do
    dq, dk, dv = attention_backward(do, dlse, q, k, v, o, lse, ctx.causal, ctx.scale)
    return dq, dk, dv, None, None


attention_with_lse.register_autograd(_differentiate, setup_context=_keep)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """Return attention; `scale` is 1/√head_dim by default, and may have either sign.

    Under autocast `q`, `k` and `v` are converted to its dtype first, as torch's own attention does.
    """
    _check_shapes(q.shape, k.shape, v.shape)
    refuse_forward_mode(q, k, v)
    q, k, v = (narrowed_by_autocast(x) for x in (q, k, v))
    q, factor = _with_positive_scale(q, default_scale(q, scale))
    return attention_with_lse(q, k, v, causal, factor)[0]


def _with_positive_scale(q: torch.Tensor, scale: float) -> tuple[torch.Tensor, float]:
    """Return `q` and a positive scale: the kernels take the maximum before they scale, and scale −∞.

    A scale that float32 cannot hold is multiplied into `q` instead.
    """
    if SMALLEST_SCALE <= abs(scale) <= LARGEST_SCALE:
        return (q, scale) if scale > 0 else (-q, -scale)
    return q * scale, 1.0


WIDTHS = (16, 32, 64, 128, 256)


def shipped() -> Iterator[Shipped]:
    """Yield the configurations the launches above choose: with descriptors and without, whole and partial last tiles.

    float16 takes the registers that bfloat16 takes, so it is left out.
    """
    yield from on_hopper.shipped()
    for dtype, itemsize in (("bf16", 2), ("fp32", 4)):
        for width in WIDTHS:
            yield _shipped_rows(f"attention {dtype} {width} D", dtype, width)
            for described in (True, False) if itemsize == 2 else (False,):
                for causal in (False, True):
                    how = "descriptors" if described else "pointers"
                    name = f"attention {dtype} {width} {how}{' causal' if causal else ''}"
                    yield from _shipped_launches(name, dtype, itemsize, width, causal, described)


def _shipped_launches(
    name: str, dtype: str, itemsize: int, width: int, causal: bool, described: bool
) -> Iterator[Shipped]:
    forward = forward_tiles(width, itemsize, described)
    queries = queries_tiles(width, itemsize, described)
    keys = keys_tiles(width, itemsize, described)
    yield shipped_keys(f"{name} dK dV", dtype, width, keys, causal, described)
    for tail in (False, True):
        whole = "partial last tile" if tail else "whole tiles"
        yield shipped_forward(f"{name} {whole} forward", dtype, width, forward, causal, described, tail)
        yield shipped_queries(f"{name} {whole} dQ", dtype, width, queries, causal, described, tail)
    if described and width <= on_hopper.WIDTHS[0]:  # wider, and for dK and dV, the Hopper kernels take over
        name = f"{name} results off the grid"
        yield _off_grid(shipped_forward(f"{name} forward", dtype, width, forward, causal, described, True))
        yield _off_grid(shipped_queries(f"{name} dQ", dtype, width, queries, causal, described, True))


def _off_grid(shipped: Shipped) -> Shipped:
    """Return the same for heads and results whose strides 16 does not divide."""
    results = {name for name in ("o_strides", "dq_strides") if name in shipped.signature}
    return dataclasses.replace(shipped, unaligned=shipped.unaligned | results | {"head_dim"})


def _shipped_rows(name: str, dtype: str, width: int) -> Shipped:
    inputs = {"o_ptr": f"*{dtype}", "do_ptr": f"*{dtype}"}
    names = ("lse_ptr", "dlse_ptr", "delta_ptr", "lse_log2_ptr")
    strides: dict[str, str | tuple[str, ...]] = dict.fromkeys(("o_strides", "do_strides"), ("i32", "i32", "i32"))
    integers = dict.fromkeys(("heads", "queries", "head_dim", "padded"), "i32")
    return Shipped(
        name=name,
        kernel=rows_kernel,
        signature={**inputs, **dict.fromkeys(names, "*fp32"), **strides, **integers},
        constants={"HAS_DLSE": True, "QUERIES": ROWS_A_PROGRAM, "WIDTH": width},
        options={"num_warps": 4},
        unaligned=frozenset({*inputs, *strides, "heads", "queries", "head_dim"}),
    )


def _sources(names: dict[str, int], dtype: str, width: int, described: bool) -> dict[str, str]:
    if described:
        return {name: f"tensordesc<{dtype}[1,1,{rows},{width}]>" for name, rows in names.items()}
    return dict.fromkeys(names, f"*{dtype}")


def _common(names: tuple[str, ...], integers: tuple[str, ...]) -> dict[str, str | tuple[str, ...]]:
    strides: dict[str, str | tuple[str, ...]] = {f"{name}_strides": ("i32", "i32", "i32") for name in names}
    return {**strides, "scale": "fp32", **dict.fromkeys(integers, "i32")}


UNALIGNED = frozenset({"batch_heads", "heads", "kv_heads", "group", "queries", "keys", "cohort"})


def _constants(dtype: str, width: int, tiles: Tiles, causal: bool, described: bool) -> dict[str, object]:
    precision = "ieee" if dtype == "fp32" else "tf32"
    sizes = {"QUERIES": tiles.queries, "KEYS": tiles.keys, "WIDTH": width}
    return {"CAUSAL": causal, **sizes, "PRECISION": precision, "DESCRIPTORS": described}


def shipped_forward(
    name: str, dtype: str, width: int, tiles: Tiles, causal: bool, described: bool, tail: bool = True
) -> Shipped:
    """Describe the forward kernel in one configuration."""
    sources = _sources({"q": tiles.queries, "k": tiles.keys, "v": tiles.keys}, dtype, width, described)
    integers = ("batch_heads", "heads", "group", "queries", "keys", "head_dim", "cohort")
    return Shipped(
        name=name,
        kernel=forward_kernel,
        signature={**sources, "o_ptr": f"*{dtype}", "lse_ptr": "*fp32", **_common(("q", "k", "v", "o"), integers)},
        constants={**_constants(dtype, width, tiles, causal, described), "TAIL": tail},
        options={"num_warps": tiles.warps, "num_stages": tiles.stages},
        unaligned=UNALIGNED,
    )


def shipped_keys(name: str, dtype: str, width: int, tiles: Tiles, causal: bool, described: bool) -> Shipped:
    """Describe the kernel for dK and dV in one configuration."""
    heights = {"q": tiles.queries, "k": tiles.keys, "v": tiles.keys, "do": tiles.queries}
    outputs = {"dk_ptr": f"*{dtype}", "dv_ptr": f"*{dtype}", "delta_ptr": "*fp32", "lse_log2_ptr": "*fp32"}
    integers = ("batch_heads", "kv_heads", "group", "queries", "keys", "head_dim", "padded", "cohort")
    strides = _common(("q", "k", "v", "do", "dk", "dv"), integers)
    return Shipped(
        name=name,
        kernel=keys_kernel,
        signature={**_sources(heights, dtype, width, described), **outputs, **strides},
        constants=_constants(dtype, width, tiles, causal, described),
        options={"num_warps": tiles.warps, "num_stages": tiles.stages},
        unaligned=UNALIGNED,
    )


def shipped_queries(
    name: str, dtype: str, width: int, tiles: Tiles, causal: bool, described: bool, tail: bool = True
) -> Shipped:
    """Describe the kernel for dQ in one configuration."""
    heights = {"q": tiles.queries, "k": tiles.keys, "v": tiles.keys, "do": tiles.queries}
    outputs = {"dq_ptr": f"*{dtype}", "delta_ptr": "*fp32", "lse_log2_ptr": "*fp32"}
    integers = ("batch_heads", "heads", "group", "queries", "keys", "head_dim", "padded", "cohort")
    strides = _common(("q", "k", "v", "do", "dq"), integers)
    return Shipped(
        name=name,
        kernel=queries_kernel,
        signature={**_sources(heights, dtype, width, described), **outputs, **strides},
        constants={**_constants(dtype, width, tiles, causal, described), "TAIL": tail},
        options={"num_warps": tiles.warps, "num_stages": tiles.stages},
        unaligned=UNALIGNED,
    )
