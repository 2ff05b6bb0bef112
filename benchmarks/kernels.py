"""Time the example kernels against their rivals on this GPU, and write the tables that the documentation quotes.

    python benchmarks/kernels.py [--output benchmarks/results/kernels]

Writes OUTPUT.json (every figure, with device and versions) and OUTPUT.md (the tables). Medians of one run, rivals
interleaved; "copy" is a copy of the same bytes, timed beside them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from collections.abc import Callable
from pathlib import Path

import torch
import triton
from queued_timing import time_rivals_us
from tabulate import tabulate

from example_kernels.attention import IMPLEMENTATIONS as ATTENTION
from example_kernels.gelu import IMPLEMENTATIONS as GELU
from example_kernels.softmax import IMPLEMENTATIONS as SOFTMAX

GELU_ELEMENTS = 64 * 2**20
SOFTMAX_SHAPES = [
    (65536, 256),
    (16384, 1024),
    (4096, 4096),
    (4096, 8192),
    (4096, 32768),
    (2048, 40000),
    (512, 131072),
    (64, 1048576),
]
ATTENTION_SHAPES = [(4, 32, 4096, 128), (4, 16, 8192, 64), (1, 32, 16384, 128), (4, 32, 4000, 128), (4, 32, 4096, 80)]
MEMORY_LENGTHS = [1024, 2048, 4096, 8192, 16384]
Row = dict[str, object]


def gelu_rows() -> list[Row]:
    """GeLU of 64 M elements, forward and backward."""
    rows: list[Row] = []
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for approximate in ("tanh", "none"):
            x = torch.randn(GELU_ELEMENTS, device="cuda", dtype=dtype)
            calls: dict[str, Callable[[], object]] = {"copy": lambda x=x: x.clone()}
            for name, function in GELU.items():
                calls[name] = lambda f=function, x=x, a=approximate: f(x, a)
            rows.append({"problem": f"{approximate} {_short(dtype)}", **time_rivals_us(calls, launches=8)})
        rows.append(_gelu_backward_row(dtype))
    return rows


def _gelu_backward_row(dtype: torch.dtype) -> Row:
    x = torch.randn(GELU_ELEMENTS, device="cuda", dtype=dtype).requires_grad_()
    dy = torch.randn_like(x)
    calls = {}
    for name in ("torch", "triton", "cuda"):
        y = GELU[name](x, "tanh")
        calls[name] = lambda y=y: torch.autograd.grad(y, x, dy, retain_graph=True)
    return {"problem": f"tanh {_short(dtype)} backward", **time_rivals_us(calls)}


def softmax_rows() -> list[Row]:
    """Softmax along rows from narrow to very wide."""
    rows: list[Row] = []
    for shape in SOFTMAX_SHAPES:
        x = torch.randn(shape, device="cuda")
        calls: dict[str, Callable[[], object]] = {"copy": lambda x=x: x.clone()}
        for name, function in SOFTMAX.items():
            calls[name] = lambda f=function, x=x: f(x, -1)
        rows.append({"problem": "×".join(map(str, shape)), **time_rivals_us(calls, launches=8)})
    return rows


def attention_rows() -> list[Row]:
    """Attention forward and backward, bf16; times in microseconds beside TFLOP/s (backward counts 2.5 × forward)."""
    rows: list[Row] = []
    for shape in ATTENTION_SHAPES:
        for causal in (False, True):
            q, k, v, do = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(4))
            name = "×".join(map(str, shape)) + (" causal" if causal else "")
            forward = {n: _forward_call(n, q, k, v, causal) for n in ("flash", "cudnn", "triton")}
            rows.append({"problem": f"{name} forward", **time_rivals_us(forward)})
            backward = {n: _backward_call(n, q, k, v, do, causal) for n in ("flash", "cudnn", "triton")}
            rows.append({"problem": f"{name} backward", **time_rivals_us(backward, launches=8)})
    return rows


def _forward_call(name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[], object]:
    q, k, v = q.detach(), k.detach(), v.detach()
    return lambda: ATTENTION[name](q, k, v, causal=causal)


def _backward_call(
    name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, causal: bool
) -> Callable[[], object]:
    o = ATTENTION[name](q, k, v, causal=causal)
    return lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True)


def attention_flops(problem: str) -> float:
    """Return the operations of a problem named as in `attention_rows`."""
    batch, heads, length, width = map(int, problem.split()[0].split("×"))
    flops = 4.0 * batch * heads * length**2 * width
    return flops * (0.5 if "causal" in problem else 1.0) * (2.5 if "backward" in problem else 1.0)


def memory_rows() -> list[Row]:
    """Peak memory of forward and backward beyond the inputs, naive against ours, in MiB."""
    rows: list[Row] = []
    for length in MEMORY_LENGTHS:
        shape = (1, 8, length, 64)
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16).requires_grad_() for _ in range(3))
        row: Row = {"length": length}
        for name in ("unfused", "triton"):
            row[f"{name} MiB"] = _peak_mib(lambda name=name, q=q, k=k, v=v: ATTENTION[name](q, k, v).sum().backward())
        rows.append(row)
    return rows


def _peak_mib(call: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def kernel_counts() -> list[Row]:
    """How many kernels each GeLU and softmax launches, by the profiler."""
    x = torch.randn(4096, 4096, device="cuda")
    rows: list[Row] = []
    for operation, table, arguments in (("gelu tanh", GELU, (x, "tanh")), ("softmax", SOFTMAX, (x,))):
        counts = {name: _count(lambda f=function, a=arguments: f(*a)) for name, function in table.items()}
        rows.append({"operation": operation, **counts})
    return rows


def _count(call: Callable[[], object]) -> int:
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages() if event.self_device_time_total > 0)


def environment() -> dict[str, str]:
    """Return what the figures depend on."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cudnn": str(torch.backends.cudnn.version()),
        "python": platform.python_version(),
    }


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def with_rates(rows: list[Row]) -> list[Row]:
    """Add TFLOP/s to rows of attention times."""
    rated = []
    for row in rows:
        flops = attention_flops(str(row["problem"]))
        rates = {f"{n} TFLOP/s": flops / us / 1e6 for n, us in row.items() if isinstance(us, float)}
        rated.append({**row, **rates})
    return rated


def markdown(results: dict[str, list[Row]], facts: dict[str, str]) -> str:
    """Return the tables as text."""
    parts = ["# Example kernels, measured\n", ", ".join(f"{k} {v}" for k, v in facts.items()) + "\n"]
    for title, rows in results.items():
        table = tabulate(rows, headers="keys", tablefmt="github", floatfmt=".1f")
        parts.append(f"## {title}\n\n{table}\n")
    return "\n".join(parts)


def main() -> None:
    """Measure everything, print the tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "kernels")
    output = parser.parse_args().output
    results = {
        "GeLU, 64 M elements, microseconds": gelu_rows(),
        "Softmax, float32, microseconds": softmax_rows(),
        "Attention, bfloat16, microseconds": with_rates(attention_rows()),
        "Attention, forward and backward, peak memory": memory_rows(),
        "Kernels launched": kernel_counts(),
    }
    facts = environment()
    text = markdown(results, facts)
    print(text)
    output.with_suffix(".json").write_text(json.dumps({"environment": facts, "results": results}, indent=1) + "\n")
    output.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
