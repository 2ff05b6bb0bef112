"""Time the example kernels against their rivals on this GPU, and write the tables that the documentation quotes.

    python benchmarks/kernels.py [--output benchmarks/results/kernels] [--only general softmax]
    python benchmarks/kernels.py --only general --rows x200 sliced --add-to benchmarks/results/kernels.json

Writes OUTPUT.json (every figure, with device and versions) and OUTPUT.md (the tables, the targets last), both again
after every row. Medians of one run, rivals interleaved; "copy" is a copy of the same bytes, timed beside them.
`--rows` compiles and times only the rows with one of these in their names. `--add-to` takes the rows of an earlier run
on this device along, except those that are measured again; rows of another run than most say so, with their date.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
import triton
from early_end import UNDECIDED, EndedEarly
from kernel_results import KernelResults, chosen, name_of
from kernel_tables import TITLES, Row, duration_us, with_rates, with_ratios
from queued_timing import time_rivals_us
from torch.nn.attention import SDPBackend, sdpa_kernel

from example_kernels.attention import IMPLEMENTATIONS as ATTENTION
from example_kernels.attention import attention
from example_kernels.attention.reference import attention_naive
from example_kernels.gelu import IMPLEMENTATIONS as GELU
from example_kernels.softmax import IMPLEMENTATIONS as SOFTMAX

COMPILERS = 12
COMPILED_SHAPES = 64
"""More than torch.compile makes of one function by default before it gives up and runs it eagerly."""

GELU_ELEMENTS = 64 * 2**20
SOFTMAX_SHAPES = [
    (65536, 256),
    (16384, 1024),
    (4096, 4096),
    (4096, 8192),
    (4096, 32768),
    (2048, 40000),
    (2048, 40001),
    (512, 131072),
    (64, 1048576),
    (64, 1048577),
]
SOFTMAX_KINDS = [
    ((4096, 4096), -1, torch.bfloat16),
    ((4096, 4096), -1, torch.float16),
    ((65536, 256), -1, torch.bfloat16),
    ((512, 131072), -1, torch.bfloat16),
    ((4096, 8192), 0, torch.float32),
    ((64, 1024, 512), 1, torch.float32),
    ((64, 1024, 512), 1, torch.bfloat16),
]
SOFTMAX_BACKWARD = [
    ((4096, 8192), -1, torch.float32),
    ((4096, 8192), -1, torch.bfloat16),
    ((1024, 32768), -1, torch.float32),
    ((64, 1024, 512), 1, torch.float32),
]
MEMORY_LENGTHS = [1024, 2048, 4096, 8192, 16384]
SCORE_LENGTHS = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768]
NOTES = (
    "Medians of one run, calls queued behind a spin, L2 flushed before each, rivals in turn. "
    '"copy" copies the same bytes. "×" says how many times as fast as a rival.\n',
    "General shapes: where rows are sliced from longer ones ([..., 1:]) they begin off the 16-byte grid; flash then "
    "gets `.contiguous()` inside its timed call (its backward does not pay for that), and ours copies by itself.\n",
)

Call = Callable[[], object]
Calls = dict[str, Call]


@dataclass(frozen=True)
class Problem:
    """Inputs, and the rivals on them: made only when their turn comes. `about` is told beside the times."""

    name: str
    make: Callable[[], Calls]
    about: tuple[tuple[str, str], ...] = ()
    launches: int = 8


@dataclass(frozen=True)
class Attend:
    """One attention problem; `layout` is how its tensors lie in memory."""

    shape: tuple[int, int, int, int]
    causal: bool = False
    backward: bool = False
    keys: int = 0
    kv_heads: int = 0
    layout: str = ""
    dtype: torch.dtype = torch.bfloat16

    @property
    def name(self) -> str:
        """The shape of the queries, what is special about the rest, mask and direction."""
        parts = [
            "×".join(map(str, self.shape)),
            f"{self.keys} keys" if self.keys else "",
            f"{self.kv_heads} key heads" if self.kv_heads else "",
            self.layout,
            "causal" if self.causal else "",
            "backward" if self.backward else "forward",
        ]
        return " ".join(filter(None, parts))

    def tensors(self) -> list[torch.Tensor]:
        """Return q, k and v."""
        batch, heads, queries, width = self.shape
        kv = (batch, self.kv_heads or heads, self.keys or queries, width)
        return [self._lay(shape).detach().requires_grad_(self.backward) for shape in (self.shape, kv, kv)]

    def _lay(self, shape: tuple[int, int, int, int]) -> torch.Tensor:
        batch, heads, length, width = shape
        if self.layout == "sliced":
            return torch.randn(batch, heads, length, width + 1, device="cuda", dtype=self.dtype)[..., 1:]
        if self.layout == "transposed":
            return torch.randn(batch, length, heads, width, device="cuda", dtype=self.dtype).transpose(1, 2)
        return torch.randn(shape, device="cuda", dtype=self.dtype)

    def calls(self, rivals: dict[str, Callable[..., torch.Tensor]]) -> Calls:
        """Return the calls to time, of the same inputs."""
        q, k, v = self.tensors()
        if not self.backward:
            return {n: lambda f=f: f(q, k, v, causal=self.causal) for n, f in rivals.items()}
        calls = {}
        for name, function in rivals.items():
            try:
                o = function(q, k, v, causal=self.causal)
            except Exception as error:
                calls[name] = _raising(error)
                continue
            do = torch.randn_like(o)
            calls[name] = lambda o=o, do=do: torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
        return calls


def _raising(error: Exception) -> Call:
    def call() -> None:
        raise error

    return call


def _with_backend(backend: SDPBackend) -> Callable[..., torch.Tensor]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
        with sdpa_kernel(backend):
            return ATTENTION["torch"](q, k, v, causal=causal)

    return attend


def _contiguous_first(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False) -> torch.Tensor:
        return function(q.contiguous(), k.contiguous(), v.contiguous(), causal=causal)

    return attend


def gelu_problems() -> list[Problem]:
    """GeLU of 64 M elements, forward and backward."""
    problems = []
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        short = str(dtype).removeprefix("torch.")
        problems += [Problem(f"{a} {short}", lambda d=dtype, a=a: _gelu(d, a)) for a in ("tanh", "none")]
        problems.append(Problem(f"tanh {short} backward", lambda d=dtype: _gelu_backward(d)))
    return problems


def _gelu(dtype: torch.dtype, approximate: str) -> Calls:
    x = torch.randn(GELU_ELEMENTS, device="cuda", dtype=dtype)
    return {"copy": x.clone, **{name: lambda f=f: f(x, approximate) for name, f in GELU.items()}}


def _gelu_backward(dtype: torch.dtype) -> Calls:
    x = torch.randn(GELU_ELEMENTS, device="cuda", dtype=dtype).requires_grad_()
    dy = torch.randn_like(x)
    outputs = {name: GELU[name](x, "tanh") for name in ("torch", "triton", "cuda")}
    return {n: lambda y=y: torch.autograd.grad(y, x, dy, retain_graph=True) for n, y in outputs.items()}


def softmax_problems() -> list[Problem]:
    """Softmax along rows from narrow to very wide, on the grid and off it."""
    return [Problem("×".join(map(str, shape)), lambda s=shape: _softmax(s)) for shape in SOFTMAX_SHAPES]


def _softmax(shape: tuple[int, int]) -> Calls:
    x = torch.randn(shape, device="cuda")
    return {"copy": x.clone, **{name: lambda f=f: f(x, -1) for name, f in SOFTMAX.items()}}


def softmax_kinds_problems() -> list[Problem]:
    """Softmax of 16-bit rows, along other dimensions than the last, and backward."""
    forward = [Problem(_kind(*k), lambda k=k: _softmax_kind(*k)) for k in SOFTMAX_KINDS]
    return forward + [Problem(f"{_kind(*k)} backward", lambda k=k: _softmax_backward(*k)) for k in SOFTMAX_BACKWARD]


def _kind(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> str:
    along = "" if dim == -1 else f" along {dim}"
    return f"{'×'.join(map(str, shape))}{along} {str(dtype).removeprefix('torch.')}"


def _softmax_kind(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> Calls:
    x = torch.randn(shape, device="cuda", dtype=dtype)
    return {"copy": x.clone, **{n: lambda f=SOFTMAX[n]: f(x, dim) for n in ("torch", "compiled", "triton")}}


def _softmax_backward(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> Calls:
    x = torch.randn(shape, device="cuda", dtype=dtype).requires_grad_()
    dy = torch.randn_like(x)
    outputs = {name: SOFTMAX[name](x, dim) for name in ("torch", "compiled", "triton")}
    return {n: lambda y=y: torch.autograd.grad(y, x, dy, retain_graph=True) for n, y in outputs.items()}


def attention_problems() -> list[Problem]:
    """Attention of whole tiles and aligned rows, and a length and a width that are not."""
    shapes = [(4, 32, 4096, 128), (4, 16, 8192, 64), (1, 32, 16384, 128), (4, 32, 4000, 128), (4, 32, 4096, 80)]
    problems = [Attend(s, causal, backward) for s in shapes for causal in (False, True) for backward in (False, True)]
    rivals = {name: ATTENTION[name] for name in ("flash", "cudnn", "triton")}
    return [Problem(p.name, lambda p=p: p.calls(rivals), launches=10) for p in problems]


def general_problems() -> list[Problem]:
    """Attention of lengths, widths, strides and heads that fit no tile, beside flash."""
    every = [(False, False), (True, False), (False, True), (True, True)]
    forward = every[:2]
    kinds = [
        (Attend((4, 32, 4096, 100)), every),
        (Attend((4, 32, 4097, 128)), every),
        (Attend((4, 16, 4000, 64)), every),
        (Attend((4, 16, 4097, 64)), forward),
        (Attend((4, 32, 4096, 64), layout="sliced"), every),
        (Attend((4, 32, 4096, 128), layout="sliced"), every),
        (Attend((2, 16, 4096, 200)), every),
        (Attend((2, 16, 4096, 256)), every),
        (Attend((2, 16, 4096, 40)), forward),
        (Attend((8, 32, 1, 100), keys=4096), every[:1]),
        (Attend((8, 32, 1, 128), keys=4096), every[:1]),
        (Attend((4, 32, 4096, 128), layout="transposed"), every),
        (Attend((4, 32, 4096, 128), kv_heads=8), every),
    ]
    problems = []
    for kind, variants in kinds:
        for causal, backward in variants:
            attend = Attend(kind.shape, causal, backward, kind.keys, kind.kv_heads, kind.layout)
            copied = attend.layout == "sliced"
            flash = _contiguous_first(ATTENTION["flash"]) if copied else ATTENTION["flash"]
            rivals = {"flash": flash, "triton": ATTENTION["triton"]}
            about = (("flash gets", "copies" if copied else "as it is"),)
            problems.append(Problem(attend.name, lambda a=attend, r=rivals: a.calls(r), about, launches=16))
    return problems


FLOAT32_RIVALS = {
    "efficient": _with_backend(SDPBackend.EFFICIENT_ATTENTION),
    "math": _with_backend(SDPBackend.MATH),
    "triton": ATTENTION["triton"],
    "default": attention,
}


def float32_problems() -> list[Problem]:
    """Attention in float32, which has no FlashAttention in torch; shared heads and rows off the 16-byte grid last."""
    problems = [
        Attend((2, 16, 2048, width), causal, backward, dtype=torch.float32)
        for width in (64, 128)
        for causal in (False, True)
        for backward in (False, True)
    ]
    problems += [
        Attend((2, 16, 2048, width), backward=backward, kv_heads=kv_heads, dtype=torch.float32)
        for width, kv_heads in ((64, 4), (65, 0))
        for backward in (False, True)
    ]
    return [Problem(p.name, lambda p=p: p.calls(FLOAT32_RIVALS), launches=16) for p in problems]


def with_errors(row: Row) -> Row:
    """Add to a row of forward in float32 how far each rival is from float64, by norms."""
    name = str(row["problem"])
    if not name.endswith("forward"):
        return row
    width, causal = int(name.split()[0].split("×")[3]), "causal" in name
    q, k, v = Attend((1, 1, 2048, width), dtype=torch.float32).tensors()
    exact = attention_naive(q.double(), k.double(), v.double(), causal=causal)
    errors: Row = {}
    for rival, function in FLOAT32_RIVALS.items():
        if math.isnan(duration_us(row, rival)):
            continue
        difference = function(q, k, v, causal=causal).double() - exact
        errors[f"{rival} error"] = (difference.norm() / exact.norm()).item()
    return {**row, **errors}


PROBLEMS: dict[str, Callable[[], list[Problem]]] = {
    "gelu": gelu_problems,
    "softmax": softmax_problems,
    "softmax-kinds": softmax_kinds_problems,
    "attention": attention_problems,
    "general": general_problems,
    "float32": float32_problems,
}


def compile_ours(item: tuple[str, int]) -> str:
    """Run the Triton kernels of one problem once, in a process of their own, so that they are in Triton's cache.

    torch.compile is left out: it chooses between kernels by timing them, which wants the card to itself.
    """
    key, index = item
    problem = PROBLEMS[key]()[index]
    try:
        problem.make()["triton"]()
        torch.cuda.synchronize()
    except Exception as error:
        return f"{problem.name}: {type(error).__name__} {str(error)[:200]}"
    finally:
        torch.cuda.empty_cache()
    return ""


def compile_all(names: Mapping[str, Sequence[str]]) -> None:
    """Compile the kernels of the rows `names`, by table, in parallel; print what fails as it does."""
    items = [item for key in names if key in PROBLEMS for item in _to_compile(key, names[key])]
    if not items:
        return
    with ProcessPoolExecutor(min(COMPILERS, len(items)), mp_context=get_context("spawn")) as pool:
        for problem in filter(None, pool.map(compile_ours, items)):
            print(problem, flush=True)


def _to_compile(key: str, names: Sequence[str]) -> list[tuple[str, int]]:
    """Return those of a table's problems that between them launch all kernels: backward launches forward's too."""
    differentiated = {name.replace("backward", "forward") for name in names if "backward" in name}
    needed = set(names) - differentiated
    return [(key, index) for index, problem in enumerate(PROBLEMS[key]()) if problem.name in needed]


def timed(key: str, names: Sequence[str]) -> Iterator[Row]:
    """Yield the times of a table's problems of these names."""
    for problem in PROBLEMS[key]():
        if problem.name in names:
            yield {"problem": problem.name, **dict(problem.about), **_times_us(problem)}
            torch.cuda.empty_cache()


def _times_us(problem: Problem) -> dict[str, float]:
    return time_rivals_us(problem.make(), launches=problem.launches)


def gelu_rows(names: Sequence[str]) -> Iterator[Row]:
    """Times, and ratios of both kernels."""
    for row in timed("gelu", names):
        yield with_ratios(row, ("triton", "cuda"), ("torch", "compiled"))


def softmax_rows(names: Sequence[str]) -> Iterator[Row]:
    """Times and ratios."""
    for row in timed("softmax", names):
        yield with_ratios(row, ("triton",), ("torch", "compiled"))


def softmax_kinds_rows(names: Sequence[str]) -> Iterator[Row]:
    """Times and ratios."""
    for row in timed("softmax-kinds", names):
        yield with_ratios(row, ("triton",), ("torch", "compiled"))


def attention_rows(names: Sequence[str]) -> Iterator[Row]:
    """Times, TFLOP/s and ratios."""
    rivals = ("flash", "cudnn")
    for row in timed("attention", names):
        yield with_ratios(with_rates(row, (*rivals, "triton")), ("triton",), rivals)


def general_rows(names: Sequence[str]) -> Iterator[Row]:
    """Times and ratios."""
    for row in timed("general", names):
        yield with_ratios(row, ("triton",), ("flash",))


def float32_rows(names: Sequence[str]) -> Iterator[Row]:
    """Times, ratios and errors."""
    rivals = ("efficient", "math")
    for row in timed("float32", names):
        yield with_errors(with_ratios(with_rates(row, FLOAT32_RIVALS), ("triton", "default"), rivals))


def length_rows(names: Sequence[str]) -> Iterator[Row]:
    """The whole score matrix against kernels that never write it, as long as there is memory for it."""
    functions = {"naive": ATTENTION["unfused"], "sdpa": ATTENTION["torch"], "triton": ATTENTION["triton"]}
    for length in (length for length in SCORE_LENGTHS if str(length) in names):
        problem = Attend((1, 32, length, 64))
        q, k, v = problem.tensors()
        calls: Calls = {name: lambda f=f, x=(q, k, v): f(*x) for name, f in functions.items()}
        times = time_rivals_us(calls, launches=12, calls=4)
        torch.cuda.empty_cache()
        memory = {f"{name} MiB": _peak_mib(call) for name, call in calls.items() if not math.isnan(times[name])}
        matrix = {"score matrix MiB": 32 * length**2 * q.element_size() / 2**20}
        yield {"length": length, **with_ratios(dict(times), ("triton",), ("naive", "sdpa")), **matrix, **memory}


def memory_rows(names: Sequence[str]) -> Iterator[Row]:
    """Peak memory of forward and backward, naive against ours."""
    for length in (length for length in MEMORY_LENGTHS if str(length) in names):
        q, k, v = Attend((1, 8, length, 64), backward=True).tensors()
        row: Row = {"length": length}
        for name in ("unfused", "triton"):
            q.grad = k.grad = v.grad = None
            row[f"{name} MiB"] = _peak_mib(lambda name=name, x=(q, k, v): ATTENTION[name](*x).sum().backward())
        yield row


def _peak_mib(call: Call) -> float:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


LAUNCHED: dict[str, tuple[Mapping[str, Callable[..., object]], tuple[object, ...]]] = {
    "gelu tanh": (GELU, ("tanh",)),
    "softmax": (SOFTMAX, ()),
}


def launched_rows(names: Sequence[str]) -> Iterator[Row]:
    """How many kernels each GeLU and softmax launches, by the profiler."""
    x = torch.randn(4096, 4096, device="cuda")
    for operation, (table, more) in LAUNCHED.items():
        if operation in names:
            counts = {name: _count(lambda f=function, a=more: f(x, *a)) for name, function in table.items()}
            yield {"operation": operation, **counts}


def _count(call: Call) -> int:
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages() if event.self_device_time_total > 0)


# From the one that harms least to the one after which a process may have no working GPU any more.
LAYOUTS = {
    "head_dim 100": Attend((1, 4, 512, 100)),
    "8 query heads, 2 key heads": Attend((1, 8, 512, 64), kv_heads=2),
    "transposed": Attend((1, 4, 512, 64), layout="transposed"),
    "head_dim 64 of rows of 65": Attend((1, 4, 512, 64), layout="sliced"),
}


def taken_rows(names: Sequence[str]) -> Iterator[Row]:
    """What flash and cuDNN do with a layout as it is, each in a process of its own."""
    rows: dict[str, Row] = {layout: {"layout": layout} for layout in LAYOUTS}
    command = [sys.executable, __file__, "--probe"]
    running = {
        name: subprocess.Popen([*command, name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for name in ("flash", "cudnn")
    }
    for name, process in running.items():
        answers = dict(json.loads(line) for line in process.communicate()[0].splitlines() if line.startswith("["))
        for layout, row in rows.items():
            row[name] = answers.get(layout, "the process ended")
    yield from (row for layout, row in rows.items() if layout in names)


def probe(name: str) -> None:
    """Print a line for each layout: how the rival's result differs from ours, or what it said."""
    for layout, attend in LAYOUTS.items():
        try:
            q, k, v = attend.tensors()
            exact = attention_naive(q.float(), k.float(), v.float())
            error = ((ATTENTION[name](q, k, v).float() - exact).norm() / exact.norm()).item()
            answer = "takes it" if error < 0.02 else f"is wrong by {error:.0%}"
        except Exception as error:
            answer = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        print(json.dumps([layout, answer]), flush=True)


TABLES: dict[str, Callable[[Sequence[str]], Iterator[Row]]] = {
    "gelu": gelu_rows,
    "softmax": softmax_rows,
    "softmax-kinds": softmax_kinds_rows,
    "attention": attention_rows,
    "general": general_rows,
    "float32": float32_rows,
    "lengths": length_rows,
    "memory": memory_rows,
    "launched": launched_rows,
    "taken": taken_rows,
}


def row_names(key: str) -> list[str]:
    """Return what a table's rows are called."""
    if key in PROBLEMS:
        return [problem.name for problem in PROBLEMS[key]()]
    others = {"lengths": SCORE_LENGTHS, "memory": MEMORY_LENGTHS, "launched": LAUNCHED, "taken": LAYOUTS}
    return [str(name) for name in others[key]]


def environment() -> dict[str, str]:
    """Return what the figures depend on."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "device": torch.cuda.get_device_name(),
        "driver": _driver(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cudnn": str(torch.backends.cudnn.version()),
        "python": platform.python_version(),
    }


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def measure(names: Mapping[str, Sequence[str]], results: KernelResults, output: Path) -> None:
    """Measure the rows of these names; write everything after each."""
    start = time.perf_counter()
    compile_all(names)
    print(f"compiled: {time.perf_counter() - start:.0f} s", flush=True)
    for key, wanted in names.items():
        try:
            for row in TABLES[key](wanted):
                results.add(key, row, row_names(key))
                results.write(output, NOTES)
                print(f"{key}: {name_of(row)}: {time.perf_counter() - start:.0f} s", flush=True)
        except Exception as error:
            print(f"{key}: {type(error).__name__}: {str(error)[:500]}", flush=True)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output", type=Path, help="without suffix (default: that of --add-to; results/kernels for all)"
    )
    tables = ", ".join(f"{key} ({TITLES[key]})" for key in TABLES)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES), help=f"of {tables}")
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="PART", help="with one of these in their names; x is ×"
    )
    parser.add_argument("--add-to", type=Path, metavar="FILE.json", help="results to take along")
    parser.add_argument("--probe", choices=["flash", "cudnn"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    some = arguments.rows or set(arguments.only) != set(TABLES)
    if some and not (arguments.output or arguments.add_to or arguments.probe):
        parser.error("some of the rows only: name --output, or --add-to with what they are to be added to")
    return arguments


def main() -> int:
    """Measure the tables one after another, write them after every row, print them."""
    arguments = parsed()
    if arguments.probe:
        probe(arguments.probe)
        return 0
    torch._dynamo.config.recompile_limit = COMPILED_SHAPES
    names = chosen({key: row_names(key) for key in TABLES if key in arguments.only}, arguments.rows)
    facts, earlier = environment(), arguments.add_to
    results = KernelResults.read(earlier, facts) if earlier else KernelResults(facts)
    output = arguments.output or earlier or Path(__file__).parent / "results" / "kernels"
    with EndedEarly() as ended_early:
        measure(names, results, output)
    print(results.text(NOTES))
    if lacking := results.lacking(names):
        print(f"not measured: {'; '.join(lacking)}", file=sys.stderr)
    return UNDECIDED if ended_early else int(bool(lacking))


if __name__ == "__main__":
    sys.exit(main())
