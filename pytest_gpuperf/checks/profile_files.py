"""A profile of a benchmark as files: the table of operators and kernels, and a trace for a timeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_gpuperf.measure.cupti import Cupti

WAITED, WARMED_UP, PROFILED = 1, 1, 3
"""Calls that are left alone, calls that start the profiler up, and calls that are recorded."""
ROWS = 100


def write_profile(torch: Any, bind: Callable[[], Callable[[], Any]], folder: Path, name: str, *, cuda: bool) -> None:
    """Profile some calls (each made by `bind`) and write `NAME.txt` and `NAME.trace.json` into `folder`.

    The trace is in Chrome's format: chrome://tracing and Perfetto show it. Raises OSError where it cannot be written.
    """
    profiler = torch.profiler
    kinds = profiler.ProfilerActivity
    schedule = profiler.schedule(wait=WAITED, warmup=WARMED_UP, active=PROFILED)
    folder.mkdir(parents=True, exist_ok=True)
    with profiler.profile(
        activities=[kinds.CPU, *([kinds.CUDA] if cuda else [])], schedule=schedule, acc_events=True
    ) as profile:
        for _ in range(WAITED + WARMED_UP + PROFILED):
            call = bind()
            call()
            if cuda:
                torch.cuda.synchronize()
            profile.step()
    Cupti.is_attached |= cuda
    order = "self_device_time_total" if cuda else "self_cpu_time_total"
    table = profile.key_averages().table(sort_by=order, row_limit=ROWS)
    (folder / f"{name}.txt").write_text(f"{table}\n", encoding="utf-8")
    profile.export_chrome_trace(str(folder / f"{name}.trace.json"))
