"""How far do runs of one kernel differ, and how far are they from the truth, by the ways that people time kernels?

    python benchmarks/precision.py [--processes 20] [--minutes 5.2] [--budget-ms 40] [--device cuda]
        [--out benchmarks/results/precision_h200.json] [--table benchmarks/results/precision_h200.txt]
    python benchmarks/precision.py --from benchmarks/results/precision_h200.json

Each process is a fork that has torch imported and makes its own context on the device, as the plugin's fresh processes
are. In it every kernel is timed by every method, in random order, each with the same budget for timing:

- ours: `measure` with `timer=auto`, the run's value as measured, and adjusted to the mean clock as verdicts are
  (compare/values and compare/clock); `ours events` where auto chose something else;
- wall: call and synchronise, by the host's clock; the mean;
- do_bench, do_bench_cudagraph: Triton's, the mean they return;
- torch Timer: `torch.utils.benchmark.Timer.blocked_autorange`, its median.

The spread is the standard deviation of the log of the processes' values. A spread is itself an estimate, of twenty
values known to 16 %; so every peer has the p of the Pitman-Morgan test beside it (of two variances seen on the same
processes), small where ours is smaller for sure, and a peer with less has the p of that.

The bias is against the kernels' durations by the profiler with a cold cache (`timer=kernel`), taken in the first
processes only, since its first session takes seconds. It is not adjusted for the clock: the clocks that were metered
stand in a table of their own. do_bench_cudagraph, wall and torch Timer flush no cache: where inputs fit, their bias is
negative by right.

Results are written after every process, so that a run that is cut short is not lost.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from early_end import UNDECIDED, EndedEarly
from precision_tables import EVENTS, OURS, REFERENCE, Timed, chosen_kind, report
from records import machine, write_record

from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.measure.versions import installed_version
from pytest_gpuperf.settings import BenchmarkSettings

WALL_WARM_UPS = 10

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Kernels:
    """Makes the calls, on a GPU of the sizes that an H200 takes the stated time for."""

    torch: Any
    device: str

    def all(self) -> dict[str, Callable[[], Call]]:
        """Return what makes each call, by its name."""
        gpu = self.device.startswith("cuda")
        elements = (4096, 3 << 19, 1 << 23, 30_000_000, 100_000_000, 500_000_000) if gpu else (4096, 1 << 16)
        widths = (128, 640, 1792, 2560, 4096, 7168) if gpu else (64, 128)
        targets = ("2us", "5us", "20us", "60us", "200us", "1ms")
        made: dict[str, Callable[[], Call]] = {}
        made |= {f"memory {t}": functools.partial(self._memory, n) for t, n in zip(targets, elements, strict=False)}
        made |= {f"compute {t}": functools.partial(self._compute, n) for t, n in zip(targets, widths, strict=False)}
        return made | {"MLP step": self._mlp_step}

    def _memory(self, elements: int) -> Call:
        return functools.partial(self.torch.neg, self._noise((elements,), self.torch.float32))

    def _compute(self, width: int) -> Call:
        a, b = (self._half(width, width) for _ in range(2))
        return functools.partial(self.torch.matmul, a, b)

    def _mlp_step(self) -> Call:
        """Return a step that takes the host longer than the device."""
        nn, width = self.torch.nn, 1024 if self.device.startswith("cuda") else 32
        layers = [part for _ in range(4) for part in (nn.Linear(width, width), nn.GELU())]
        x = self._half(256, width)
        model = nn.Sequential(*layers).to(device=self.device, dtype=x.dtype)

        def step(x: Any) -> Any:
            model.zero_grad(set_to_none=True)
            loss = model(x).square().mean()
            loss.backward()
            return loss.detach()

        return functools.partial(step, x)

    def _half(self, *shape: int) -> Any:
        dtype = self.torch.bfloat16 if self.device.startswith("cuda") else self.torch.float32
        return self._noise(shape, dtype)

    def _noise(self, shape: tuple[int, ...], dtype: Any) -> Any:
        # The default generator may be left broken by a capture that failed in another's timer.
        generator = self.torch.Generator(self.device).manual_seed(1)
        return self.torch.randn(shape, device=self.device, dtype=dtype, generator=generator)


class Methods:
    """The ways to time a call; each returns microseconds, ours a run record."""

    def __init__(self, torch: Any, backend: Backend, budget_ms: float) -> None:
        self._torch = torch
        self._backend = backend
        self._budget_ms = budget_ms
        self.preferred: str | None = None
        """What auto chose for the kernel in the first process: as in a session, it decides for all."""

    def ours(self, call: Call, timer: str = "auto") -> RunRecord:
        """Measure as the plugin does, with this script's budget."""
        settings = BenchmarkSettings(timer=timer, max_time=self._budget_ms / 1e3)  # type: ignore[arg-type]
        plan = Plan(benchmark=BenchmarkId(node_id="precision"), settings=settings, preferred_timer=self.preferred)
        return measure(call, plan, self._backend).record

    def wall(self, call: Call) -> float:
        """Time calls one by one by the host's clock, each until the device is idle."""
        times_us: list[float] = []
        for _ in range(WALL_WARM_UPS):
            call()
        self._backend.synchronize()
        until = time.perf_counter() + self._budget_ms / 1e3
        while not times_us or time.perf_counter() < until:
            start_ns = time.perf_counter_ns()
            call()
            self._backend.synchronize()
            times_us.append((time.perf_counter_ns() - start_ns) / 1e3)
        return fmean(times_us)

    def do_bench(self, call: Call) -> float:
        """Time by Triton's events behind a flush."""
        from triton.testing import do_bench

        return 1e3 * float(do_bench(call, warmup=int(self._budget_ms), rep=int(self._budget_ms)))

    def do_bench_cudagraph(self, call: Call) -> float:
        """Time by Triton's graph of calls."""
        from triton.testing import do_bench_cudagraph

        with self._torch.cuda.stream(self._torch.cuda.Stream()):
            return 1e3 * float(do_bench_cudagraph(call, rep=int(self._budget_ms)))

    def torch_timer(self, call: Call) -> float:
        """Time by torch's blocks of calls."""
        from torch.utils.benchmark import Timer

        timer = Timer("call()", globals={"call": call})
        return 1e6 * float(timer.blocked_autorange(min_run_time=self._budget_ms / 1e3).median)

    def by_name(self, *, gpu: bool, reference: bool) -> dict[str, Callable[[Call], Any]]:
        """Return the methods that this device has."""
        found: dict[str, Callable[[Call], Any]] = {OURS: self.ours, "wall": self.wall, "torch Timer": self.torch_timer}
        if gpu:
            found |= {"do_bench": self.do_bench, "do_bench_cudagraph": self.do_bench_cudagraph}
        if gpu and reference:
            found[REFERENCE] = functools.partial(self.ours, timer="kernel")
        return found


def one_process(
    device: str, budget_ms: float, seed: int, chosen: Mapping[str, str | None], *, reference: bool
) -> dict[str, Timed]:
    """Time every kernel by every method in this process; return the values by kernel and method.

    `chosen` is what auto chose in the first process, by kernel.
    """
    import torch

    backend = backend_for(device)
    gpu = device.startswith("cuda")
    budget_us = 1e3 * budget_ms
    # Every method gets the same budget; the plugin's own is several times this.
    backend.warmup = replace(backend.warmup, least_work_us=budget_us, block_work_us=budget_us / 3)  # type: ignore[misc]
    backend.least_timed_us = budget_us  # type: ignore[misc]
    order, timed = random.Random(seed), {}
    methods = Methods(torch, backend, budget_ms)
    kernels = Kernels(torch, backend.device).all()
    for name in order.sample(list(kernels), len(kernels)):
        call = kernels[name]()
        call()
        backend.synchronize()
        methods.preferred = chosen.get(name)
        timed[name] = _by_all(call, methods.by_name(gpu=gpu, reference=reference), order)
        if gpu and chosen_kind(timed[name][OURS].get("notes", ())) not in (None, "events"):
            events = functools.partial(methods.ours, timer="events")
            timed[name] |= _by_all(call, {EVENTS: events}, order)
        del call
        backend.release_memory()
    backend.close()
    return timed


def _by_all(call: Call, methods: Mapping[str, Callable[[Call], Any]], order: random.Random) -> Timed:
    timed: Timed = {}
    for method in order.sample(list(methods), len(methods)):
        try:
            timed[method] = msgspec.to_builtins(methods[method](call))
        except Exception as error:
            timed[method] = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    return timed


def in_a_fork(work: Callable[[], object], path: Path) -> str:
    """Do the work in a fork and write what it returns to `path`; return how it failed, empty where it did not."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            path.write_text(json.dumps(work(), allow_nan=False))
            code = 0
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="backslashreplace"))
        finally:
            os._exit(code)
    try:
        _, status = os.waitpid(child, 0)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code else ""


def measure_all(arguments: argparse.Namespace, record: dict[str, Any]) -> None:
    """Run the processes one after another; add each to the record, and write that."""
    import torch
    import torch.utils.benchmark

    if arguments.device.startswith("cuda"):
        import triton.testing  # noqa: F401  # once, for all forks

    begun, last_s = time.perf_counter(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.processes):
            spent_s = time.perf_counter() - begun
            if spent_s + last_s > 60 * arguments.minutes:
                print(f"out of time after {number} of {arguments.processes} processes", flush=True)
                break
            path, reference = Path(folder, f"{number}.json"), number < arguments.reference_processes
            first = record["processes"][0] if record["processes"] else {}
            chosen = {kernel: chosen_kind(timed[OURS].get("notes", ())) for kernel, timed in first.items()}
            work = functools.partial(
                one_process, arguments.device, arguments.budget_ms, arguments.seed + number, chosen, reference=reference
            )
            failed = in_a_fork(work, path)
            last_s = time.perf_counter() - begun - spent_s
            print(f"process {number + 1}: {failed or f'{last_s:.1f} s'}", flush=True)
            if not failed:
                record["processes"].append(json.loads(path.read_text()))
            record["seconds"] = round(time.perf_counter() - begun, 1)
            _write(record, arguments)
    del torch


def _record(arguments: argparse.Namespace, about: dict[str, str]) -> dict[str, Any]:
    versions = {"triton": installed_version("triton"), "pytest_gpuperf": installed_version("pytest-gpuperf")}
    return {
        "machine": {**about, **versions},
        "budget_ms": arguments.budget_ms,
        "seed": arguments.seed,
        "seconds": 0.0,
        "processes": [],
    }


def _write(record: dict[str, Any], arguments: argparse.Namespace) -> None:
    write_record(record, arguments.out)
    if arguments.table and len(record["processes"]) > 1:
        arguments.table.parent.mkdir(parents=True, exist_ok=True)
        arguments.table.write_text(report(record) + "\n")


def main() -> int:
    """Measure or read, print the tables, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--reference-processes", type=int, default=3, help="those that use the profiler (default: 3)")
    parser.add_argument("--minutes", type=float, default=5.2, help="begin no process that may end later (5.2)")
    parser.add_argument("--budget-ms", type=float, default=40.0, help="of each timing (default: 40)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--from", dest="source", type=Path, help="make the tables from this record; measure nothing")
    parser.add_argument("--out", type=Path, help="where to write the record as JSON")
    parser.add_argument("--table", type=Path, help="where to write the tables as text")
    arguments = parser.parse_args()
    # Lets a fork use CUDA although this process has been asked for devices.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    ended_early = EndedEarly()
    if arguments.source:
        record = json.loads(arguments.source.read_text())
    else:
        record = _record(arguments, machine())
        with ended_early:
            measure_all(arguments, record)
    _write(record, arguments)
    if len(record["processes"]) > 1:
        print(report(record))
    if ended_early:
        return UNDECIDED
    return 0 if len(record["processes"]) > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
