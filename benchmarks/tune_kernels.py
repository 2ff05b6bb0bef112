"""Find the tile sizes of the example kernels on this GPU; prints a table a problem, fastest first.

    python benchmarks/tune_kernels.py [softmax] [attention] [attention-wide] [softmax-single] [--out FILE]

By default the first two, which are of heads of 64 and 128. The third is of heads of 256, the last compares variants of
the single-tile softmax kernel that are not shipped.

Candidates are compiled in parallel first, into Triton's cache, then timed one after another in turn.
Tables are printed, and the file written, as they are measured.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from early_end import UNDECIDED, EndedEarly
from queued_timing import time_rivals_us
from records import write_whole
from softmax_candidates import candidates

from example_kernels.attention import with_triton as attention
from example_kernels.attention.configurations import Tiles
from example_kernels.softmax import IMPLEMENTATIONS as SOFTMAX
from example_kernels.softmax import kernels as softmax_kernels
from example_kernels.softmax import with_triton as softmax

COMPILERS = 14
FORWARD = {
    128: [(128, 64, 4, 2), (128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 8, 2), (128, 32, 4, 3), (64, 64, 4, 2)],
    64: [(128, 64, 4, 2), (128, 64, 4, 3), (64, 128, 4, 2), (64, 64, 4, 3), (128, 128, 8, 2), (128, 64, 8, 3),
         (128, 128, 4, 2), (256, 64, 8, 2)],
    256: [(128, 64, 8, 2), (128, 32, 8, 2), (64, 64, 4, 2), (64, 32, 4, 2), (128, 64, 8, 1)],
}  # fmt: skip
KEYS = {
    128: [(64, 64, 8, 2), (32, 128, 8, 2), (64, 128, 8, 2), (64, 128, 8, 1), (64, 64, 4, 2), (32, 64, 4, 2),
          (32, 128, 8, 3)],
    64: [(64, 128, 8, 2), (64, 64, 4, 2), (128, 64, 4, 2), (64, 64, 8, 2), (128, 128, 8, 2), (64, 128, 4, 2),
         (32, 128, 4, 2), (64, 128, 8, 3)],
    256: [(32, 32, 8, 1), (32, 64, 8, 2), (32, 64, 8, 3), (16, 64, 8, 2), (16, 64, 8, 3), (64, 64, 8, 2),
          (64, 32, 8, 2), (64, 32, 8, 1)],
}  # fmt: skip
QUERIES = {
    128: [(128, 64, 8, 2), (64, 64, 4, 2), (128, 32, 4, 2), (128, 128, 8, 1), (64, 128, 4, 2), (128, 64, 8, 1),
          (64, 64, 4, 1)],
    64: [(128, 64, 8, 3), (128, 64, 4, 2), (64, 64, 4, 2), (64, 64, 4, 3), (64, 128, 4, 2), (128, 128, 8, 2),
         (128, 64, 8, 2)],
    256: [(64, 64, 8, 2), (128, 32, 8, 2), (128, 32, 8, 3), (64, 32, 4, 2), (64, 32, 4, 3), (64, 32, 8, 2),
          (64, 32, 8, 3), (64, 64, 4, 2), (128, 64, 8, 1)],
}  # fmt: skip
PROBLEMS = {128: (4, 32, 4096, 128), 64: (4, 16, 8192, 64), 256: (2, 16, 4096, 256)}


def _attention_inputs(width: int) -> list[torch.Tensor]:
    shape = PROBLEMS[width]
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4)]


def attention_call(kind: str, width: int, tiles: Tiles | None, causal: bool) -> Callable[[], object]:
    """Return a launch of one attention kernel on its benchmark problem."""
    q, k, v, do = _attention_inputs(width)
    scale = width**-0.5
    if kind == "forward":
        o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
        return lambda: attention.launch_forward(q, k, v, o, lse, causal, scale, tiles)
    o, lse = attention.attention_with_lse(q, k, v, causal, scale)
    rows = attention.launch_rows(o, do, lse, None)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    if kind == "keys":
        return lambda: attention.launch_keys(q, k, v, do, rows, dk, dv, causal, scale, tiles)
    return lambda: attention.launch_queries(q, k, v, do, rows, dq, causal, scale, tiles)


def compile_attention(candidate: tuple) -> str:
    """Run one candidate once, in a process of its own, so that it is in Triton's cache."""
    kind, width, tiles, causal = candidate
    try:
        attention_call(kind, width, Tiles(*tiles), causal)()
        torch.cuda.synchronize()
    except Exception as error:
        return f"{candidate}: {type(error).__name__} {str(error)[:150]}"
    return ""


def tune_attention(widths: tuple[int, ...] = (128, 64)) -> Iterator[str]:
    """Time every candidate of the three kernels, for heads of `widths`."""
    tables = (("forward", FORWARD, 2.0), ("keys", KEYS, 4.0), ("queries", QUERIES, 3.0))
    candidates = [
        (kind, width, tiles, causal)
        for kind, table, _ in tables
        for width in widths
        for tiles in table[width]
        for causal in (False, True)
    ]
    with ProcessPoolExecutor(COMPILERS, mp_context=get_context("spawn")) as pool:
        for failed in filter(None, pool.map(compile_attention, candidates)):
            print(failed, flush=True)
    for (kind, table, matmuls), width, causal in itertools.product(tables, widths, (False, True)):
        batch, heads, length, _ = PROBLEMS[width]
        flops = matmuls * 2 * batch * heads * length**2 * width * (0.5 if causal else 1.0)
        calls = {str(t): attention_call(kind, width, Tiles(*t), causal) for t in table[width]}
        calls["shipped"] = attention_call(kind, width, None, causal)
        times = time_rivals_us(calls, rounds=4, calls=4)
        yield table(f"attention {kind} d{width}{' causal' if causal else ''}", times, flops)


def tune_softmax() -> Iterator[str]:
    """Time single tiles by rows and warps, shared rows by tile and warps, each beside a copy."""
    for rows, columns, choices in (
        (65536, 256, [(r, w) for r in (4, 8, 16, 32) for w in (2, 4, 8)]),
        (16384, 1024, [(r, w) for r in (1, 2, 4, 8) for w in (2, 4, 8)]),
        (4096, 4096, [(1, w) for w in (4, 8, 16)]),
        (4096, 8192, [(1, w) for w in (4, 8, 16)]),
        (4096, 32768, [(1, w) for w in (8, 16, 32)]),
    ):
        x = torch.randn(rows, columns, device="cuda")
        y = torch.empty_like(x)
        calls = {"copy": lambda x=x, y=y: y.copy_(x), "torch": lambda x=x: torch.softmax(x, -1)}
        for many, warps in choices:
            calls[f"{many} rows {warps} warps"] = lambda x=x, y=y, many=many, warps=warps: (
                softmax_kernels.single_tile_kernel[((x.shape[0] + many - 1) // many,)](
                    x, y, *x.shape, x.stride(0), many, x.shape[1], num_warps=warps
                )
            )
        yield table(f"softmax {rows}×{columns}", time_rivals_us(calls, rounds=4))
    for rows, columns in ((512, 131072), (64, 1048576), (4096, 65536), (2048, 40000)):
        x = torch.randn(rows, columns, device="cuda")
        y = torch.empty_like(x)
        calls = {"copy": lambda x=x, y=y: y.copy_(x), "torch": lambda x=x: torch.softmax(x, -1)}
        for strategy in ("online", "split"):
            calls[strategy] = lambda x=x, y=y, strategy=strategy: softmax.softmax_rows(x, y, strategy)
        for tile, warps, programs in ((16384, 16, 2), (8192, 8, 4), (4096, 4, 8), (32768, 32, 1), (8192, 16, 2)):
            calls[f"shared {tile} {warps} warps"] = _shared_call(x, y, tile, warps, programs)
        yield table(f"softmax {rows}×{columns}", time_rivals_us(calls, rounds=4))


def _shared_call(x: torch.Tensor, y: torch.Tensor, tile: int, warps: int, programs: int) -> Callable[[], object]:
    def call() -> None:
        softmax.SHARED_TILE, softmax.SHARED_WARPS, softmax.SHARED_PROGRAMS_PER_MULTIPROCESSOR = tile, warps, programs
        softmax.softmax_rows(x, y, "shared")

    return call


def tune_softmax_single() -> Iterator[str]:
    """Time variants of the single-tile kernel, in so many rounds that half a percent shows."""
    multiprocessors = torch.cuda.get_device_properties("cuda").multi_processor_count
    for rows, columns in ((16384, 1024), (65536, 256), (8192, 2048), (4096, 4096), (4096, 8192)):
        x = torch.randn(rows, columns, device="cuda")
        y = torch.empty_like(x)
        calls = {"copy": lambda x=x, y=y: y.copy_(x), "shipped": lambda x=x, y=y: softmax.softmax_rows(x, y)}
        calls |= {name: lambda x=x, f=SOFTMAX[name]: f(x, -1) for name in ("torch", "compiled", "triton")}
        for registers in (32, 40, 48):
            calls[f"shipped, {registers} registers"] = _capped_call(x, y, registers)
        for candidate in candidates(columns):
            calls[candidate.name] = lambda x=x, y=y, c=candidate: c.launch(x, y, multiprocessors)
        yield table(f"softmax {rows}×{columns}", time_rivals_us(calls, rounds=20, calls=6))


def _capped_call(x: torch.Tensor, y: torch.Tensor, registers: int) -> Callable[[], object]:
    """Return the shipped launch with fewer registers a thread, so that more programs are resident."""
    rows_a_program, width, warps = softmax.tile_shape(x.shape[1])
    grid = ((x.shape[0] + rows_a_program - 1) // rows_a_program,)
    return lambda: softmax_kernels.single_tile_kernel[grid](
        x, y, *x.shape, x.stride(0), rows_a_program, width, num_warps=warps, maxnreg=registers
    )


def table(title: str, times: dict[str, float], flops: float = 0.0) -> str:
    """Return the candidates of one problem, fastest first."""
    lines = [title]
    for name, us in sorted(times.items(), key=lambda item: item[1]):
        rate = f"  {flops / us / 1e6:4.0f} TFLOP/s" if flops else ""
        lines.append(f"  {us:9.1f} us{rate}  {name}")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "softmax": tune_softmax,
    "attention": tune_attention,
    "attention-wide": lambda: tune_attention((256,)),
    "softmax-single": tune_softmax_single,
}


def main() -> int:
    """Measure the wanted tables; print and write each as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}")
    parser.add_argument("--out", type=Path, help="where to write the tables as text")
    arguments = parser.parse_args()
    wanted = arguments.tables or ["softmax", "attention"]
    if unknown := set(wanted) - set(TABLES):
        parser.error(f"no such table: {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    measured: list[str] = []
    with EndedEarly() as ended_early:
        for one in itertools.chain.from_iterable(TABLES[name]() for name in TABLES if name in wanted):
            print(one, flush=True)
            measured.append(one)
            if arguments.out:
                write_whole("\n".join(measured) + "\n", arguments.out)
    if ended_early:
        print(f"{len(measured)} tables")
    return UNDECIDED if ended_early else 0


if __name__ == "__main__":
    sys.exit(main())
