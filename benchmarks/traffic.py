"""Measure how many bytes the example kernels really move, beside those that they have to by count.

    python benchmarks/traffic.py [--output benchmarks/results/traffic] [--only "gelu tanh bfloat16" …] [--no-ncu]

Two counters, each told to be refused where it is: NVML's share of the memory's bandwidth, turned into bytes by a copy
of known bytes (it came with Hopper), and Nsight Compute's bytes of every kernel, read and written.
Writes OUTPUT.json and OUTPUT.md, again after every problem. Calls follow one another and the L2 cache is not flushed:
what a call finds there of the one before, it need not read; operands are several times as large as the cache.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from early_end import UNDECIDED, EndedEarly
from kernels import Attend, Call, Calls, environment
from records import write_whole
from traffic_counters import (
    Bandwidth,
    BandwidthMeter,
    KernelTraffic,
    RefusedError,
    counted_by_ncu,
    find_ncu,
    segments,
)
from traffic_tables import MB, Row, attention_bytes, markdown, row_of

from example_kernels.attention import IMPLEMENTATIONS as ATTENTION
from example_kernels.gelu import IMPLEMENTATIONS as GELU
from example_kernels.softmax import IMPLEMENTATIONS as SOFTMAX

LEAD_S, READING_S, BATCH_S = 0.2, 0.6, 0.02
"""Calls run before the first sample is taken; NVML wants samples a tenth of a second apart."""
PILOT_CALLS = 3
COPY_BYTES = 2 * 2**30
NCU_TIMEOUT_S = 400.0
SEPARATOR = "spin_kernel"
"""What torch.cuda._sleep launches."""
GELU_ELEMENTS = 64 * 2**20


@dataclass(frozen=True)
class Problem:
    """An operation: its calls, made when their turn comes, and the bytes that each has to move by count."""

    name: str
    make: Callable[[], Calls]
    counted_bytes: dict[str, float] = field(default_factory=dict)


def gelu_problem(dtype: torch.dtype) -> Problem:
    """One tensor read, one written; of the six kernels one reads two, one three operands (two of them the same)."""
    tensor = GELU_ELEMENTS * dtype.itemsize
    passes = {"torch": 2, "unfused": 14, "compiled": 2, "triton": 2, "cuda": 2, "cuda_scalar": 2}

    def make() -> Calls:
        x = torch.randn(GELU_ELEMENTS, device="cuda", dtype=dtype)
        return {name: lambda f=GELU[name]: f(x, "tanh") for name in passes}

    return Problem(f"gelu tanh {_short(dtype)}", make, {name: n * tensor for name, n in passes.items()})


def gelu_backward_problem(dtype: torch.dtype) -> Problem:
    """Input and gradient read, one tensor written."""
    names = ("torch", "triton", "cuda")

    def make() -> Calls:
        x = torch.randn(GELU_ELEMENTS, device="cuda", dtype=dtype, requires_grad=True)
        dy = torch.randn_like(x)
        return {name: _differentiated(GELU[name], x, "tanh", dy) for name in names}

    bytes_moved = 3 * GELU_ELEMENTS * dtype.itemsize
    return Problem(f"gelu tanh {_short(dtype)} backward", make, dict.fromkeys(names, bytes_moved))


def softmax_problem(rows: int, columns: int) -> Problem:
    """A row read once and written once; five kernels make eight passes."""
    tensor = rows * columns * 4
    passes = {"torch": 2, "unfused": 8, "compiled": 2, "triton": 2}

    def make() -> Calls:
        x = torch.randn(rows, columns, device="cuda")
        return {name: lambda f=SOFTMAX[name]: f(x, -1) for name in passes}

    return Problem(f"softmax float32 {rows}×{columns}", make, {name: n * tensor for name, n in passes.items()})


def softmax_backward_problem(rows: int, columns: int, passes: int) -> Problem:
    """Result and gradient read, once or twice, one tensor written."""

    def make() -> Calls:
        x = torch.randn(rows, columns, device="cuda", requires_grad=True)
        dy = torch.randn_like(x)
        return {name: _differentiated(SOFTMAX[name], x, -1, dy) for name in ("torch", "triton")}

    tensor = rows * columns * 4
    counted = {"torch": 3 * tensor, "triton": passes * tensor}
    return Problem(f"softmax float32 {rows}×{columns} backward", make, counted)


def _differentiated(function: Callable[..., torch.Tensor], x: torch.Tensor, how: object, dy: torch.Tensor) -> Call:
    """Return the backward pass alone; the forward pass runs with the first call."""
    outputs: list[torch.Tensor] = []

    def call() -> object:
        if not outputs:
            outputs.append(function(x, how))
        return torch.autograd.grad(outputs[0], x, dy, retain_graph=True)

    return call


ATTENTION_RIVALS = ("unfused", "flash", "cudnn", "triton")


def attention_problem(shape: tuple[int, int, int, int], causal: bool = False, backward: bool = False) -> Problem:
    """Q, K, V and O once each, and the row sums; the naive formula moves the score matrix as well."""
    attend = Attend(shape, causal, backward)
    names = ATTENTION_RIVALS[1:] if backward else ATTENTION_RIVALS
    counted = attention_bytes(shape, causal=causal, backward=backward)
    return Problem(f"attention bfloat16 {attend.name}", lambda: attend.calls({n: ATTENTION[n] for n in names}), counted)


def problems() -> list[Problem]:
    """Return all problems: every operation forward and backward, on operands several times as large as the L2 cache."""
    attention = [((4, 32, 4096, 128), False), ((4, 32, 4096, 128), True), ((4, 16, 8192, 64), False)]
    return [
        *(gelu_problem(dtype) for dtype in (torch.bfloat16, torch.float32)),
        gelu_backward_problem(torch.bfloat16),
        *(softmax_problem(*shape) for shape in ((65536, 1024), (4096, 32768), (512, 131072), (64, 1048576))),
        softmax_backward_problem(16384, 4096, passes=3),
        softmax_backward_problem(2048, 32768, passes=5),
        *(attention_problem(shape, causal) for shape, causal in attention),
        *(attention_problem(shape, causal, backward=True) for shape, causal in attention),
    ]


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def meter() -> BandwidthMeter:
    """Return NVML's counter of this process's device. Raises RefusedError."""
    try:
        import pynvml

        pynvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(0).uuid)
        return BandwidthMeter(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"))
    except RefusedError:
        raise
    except Exception as error:
        raise RefusedError(f"NVML: {error}") from error


class Busy:
    """Keeps the device at one call after another: some are always queued, never more than two batches."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.calls = 0
        self._last: torch.cuda.Event | None = None
        self._pilot_s()  # the first calls compile
        self._batch = max(1, math.ceil(BATCH_S / self._pilot_s()))
        self.start = time.perf_counter()

    def for_seconds(self, seconds: float) -> None:
        """Queue calls for so long."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self._queue()

    def seconds_a_call(self) -> float:
        """Wait for the device; return how long a call took on average."""
        torch.cuda.synchronize()
        return (time.perf_counter() - self.start) / self.calls

    def _pilot_s(self) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(PILOT_CALLS):
            self._call()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / PILOT_CALLS

    def _queue(self) -> None:
        for _ in range(self._batch):
            self._call()
        self.calls += self._batch
        queued, before = torch.cuda.Event(), self._last
        queued.record()
        self._last = queued
        if before is not None:
            before.synchronize()


def read(counter: BandwidthMeter, call: Call) -> tuple[float, float]:
    """Return the share of the bandwidth that calls used, one after another, and how long a call took."""
    busy = Busy(call)
    busy.for_seconds(LEAD_S)
    share = counter.share_used(lambda: busy.for_seconds(READING_S))
    return share, busy.seconds_a_call()


def calibrate(counter: BandwidthMeter) -> Bandwidth:
    """Return what NVML calls the whole bandwidth, by a copy."""
    source = torch.randn(COPY_BYTES // 4, device="cuda")
    target = torch.empty_like(source)
    return Bandwidth.of_copy(2 * COPY_BYTES, *read(counter, lambda: target.copy_(source)))


def check_row(counter: BandwidthMeter, bandwidth: Bandwidth) -> Row:
    """Return the row of a sum, which only reads: whether the scale that a copy gave holds for it too."""
    source = torch.randn(COPY_BYTES // 4, device="cuda")
    measured = bandwidth.bytes_a_call(*read(counter, source.sum))
    return row_of("check: a sum", "torch", COPY_BYTES, {"NVML MB": measured / MB})


def by_nvml(problem: Problem, counter: BandwidthMeter, bandwidth: Bandwidth) -> dict[str, Row]:
    """Return what NVML says that a call of each implementation moves."""
    moved: dict[str, Row] = {}
    for name, call in problem.make().items():
        try:
            moved[name] = {"NVML MB": bandwidth.bytes_a_call(*read(counter, call)) / MB}
        except Exception as error:
            print(f"{problem.name}, {name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    torch.cuda.empty_cache()
    return moved


def by_ncu(ncu: str, chosen: Sequence[Problem]) -> dict[tuple[str, str], Row]:
    """Return what Nsight Compute counts in a call of every implementation of every problem. Raises RefusedError."""
    pairs = [(problem.name, name) for problem in chosen for name in problem.counted_bytes]
    program = [sys.executable, __file__, "--workload", *(problem.name for problem in chosen)]
    launched = segments(counted_by_ncu(ncu, program, NCU_TIMEOUT_S), SEPARATOR)
    return {pair: _summed(kernels) for pair, kernels in zip(pairs, launched, strict=False) if kernels}


def _summed(kernels: Sequence[KernelTraffic]) -> Row:
    return {
        "ncu read MB": sum(kernel.read_bytes for kernel in kernels) / MB,
        "ncu written MB": sum(kernel.written_bytes for kernel in kernels) / MB,
        "kernels": len(kernels),
    }


def run_workload(chosen: Sequence[Problem]) -> None:
    """Call every implementation between the marks that tell ncu what to count, each behind a separating kernel.

    Without a problem nothing but the separating kernel runs.
    """
    if not chosen:
        _run_separated(lambda: None)
    for problem in chosen:
        calls = problem.make()
        for name in problem.counted_bytes:
            _run_separated(calls[name])
        calls.clear()
        torch.cuda.empty_cache()


def _run_separated(call: Call) -> None:
    works = True
    try:
        for _ in range(PILOT_CALLS):
            call()
    except Exception as error:
        print(f"{type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        works = False
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    torch.cuda._sleep(1)
    if works:
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def usable_ncu() -> str:
    """Return ncu's path after it has counted the smallest kernel. Raises RefusedError."""
    ncu = find_ncu()
    counted_by_ncu(ncu, [sys.executable, __file__, "--workload"], NCU_TIMEOUT_S)
    return ncu


def _asked(question: Callable[[], object], what: str, said: dict[str, str]) -> object:
    """Return the answer, or None where it is refused; what was said is kept."""
    try:
        answer = question()
    except RefusedError as error:
        said[what] = f"refused: {error}"
        return None
    said[what] = "read"
    return answer


def write(output: Path, facts: dict[str, str], rows: Sequence[Row]) -> str:
    """Write figures and table; return the table."""
    text = markdown(facts, rows)
    write_whole(json.dumps({"environment": facts, "rows": list(rows)}, indent=1) + "\n", output.with_suffix(".json"))
    write_whole(text, output.with_suffix(".md"))
    return text


def main() -> int:
    """Measure problem after problem; return 1 where no counter could be read, 3 where it was ended early."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "traffic")
    parser.add_argument("--only", nargs="+", metavar="PROBLEM", default=[""], help="problems by how their names begin")
    parser.add_argument("--no-ncu", action="store_true", help="do not try Nsight Compute")
    parser.add_argument("--workload", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.workload is not None:
        run_workload([problem for problem in problems() if problem.name in arguments.workload])
        return 0
    chosen = [problem for problem in problems() if problem.name.startswith(tuple(arguments.only))]
    said: dict[str, str] = {}
    counter = _asked(meter, "NVML", said)
    bandwidth = _asked(lambda: calibrate(counter), "NVML", said) if counter else None
    ncu = None if arguments.no_ncu else _asked(usable_ncu, "ncu", said)
    counted = _asked(lambda: by_ncu(ncu, chosen), "ncu", said) if ncu else None
    print(said, flush=True)
    if not bandwidth and not counted:
        return 1
    facts, rows, text = {**environment(), **said}, [], ""
    if bandwidth:
        facts["whole bandwidth by a copy"] = f"{bandwidth.bytes_per_s / 1e12:.2f} TB/s"
        rows.append(check_row(counter, bandwidth))
    with EndedEarly() as ended_early:
        for problem in chosen:
            moved = by_nvml(problem, counter, bandwidth) if bandwidth else {}
            for name, counted_bytes in problem.counted_bytes.items():
                measured = {**moved.get(name, {}), **(counted or {}).get((problem.name, name), {})}
                rows.append(row_of(problem.name, name, counted_bytes, measured))
            text = write(arguments.output, facts, rows)
    print(text)
    return UNDECIDED if ended_early else 0


if __name__ == "__main__":
    sys.exit(main())
