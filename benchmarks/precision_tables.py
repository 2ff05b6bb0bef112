"""The tables of timers' precision, from what the processes of precision.py measured."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any

import msgspec
from scipy.stats import pearsonr
from tabulate import tabulate

from pytest_gpuperf.compare.clock import raw
from pytest_gpuperf.compare.values import run_values
from pytest_gpuperf.measure.notes import AUTO_NOTE
from pytest_gpuperf.measure.samples import RunRecord

OURS, EVENTS, REFERENCE = "ours auto", "ours events", "reference"
ADJUSTED = "ours adjusted"
PEERS = ("wall", "do_bench", "do_bench_cudagraph", "torch Timer")
COLUMNS = (ADJUSTED, OURS, EVENTS, *PEERS)
LIMITS = {"short": 0.025, "long": 0.007}
LONG_US = 20.0
LEAST_FOR_P = 3
SMALLEST_P = 1e-4

Timed = dict[str, Any]
"""By method: a time in microseconds, a run record as plain values, or `{"failed": reason}`."""


def chosen_kind(notes: Sequence[str]) -> str | None:
    """Return what auto chose, as its note says."""
    said = [note.removeprefix(AUTO_NOTE) for note in notes if note.startswith(AUTO_NOTE)]
    return re.split(r"[ ,]", said[0])[0] if said else None


def log_values(processes: list[dict[str, Timed]], kernel: str) -> dict[str, list[float]]:
    """Return each method's log times in microseconds, one a process, without those that failed."""
    timed: dict[str, list[Any]] = {}
    for process in processes:
        for method, value in process.get(kernel, {}).items():
            if not _failed(value):
                timed.setdefault(method, []).append(value)
    found: dict[str, list[float]] = {}
    for method, values in timed.items():
        if method in (OURS, EVENTS, REFERENCE):
            records = [msgspec.convert(value, RunRecord) for value in values]
            found[method] = [raw(record) for record in records]
            if method == OURS and _all_alike(records):
                found[ADJUSTED] = run_values(records)
        else:
            found[method] = [math.log(value) for value in values]
    if OURS in found and EVENTS not in found:
        found[EVENTS] = found[OURS]  # auto chose events: it is the same measurement
    return found


def _failed(value: Any) -> bool:
    return isinstance(value, dict) and "failed" in value


def _all_alike(records: list[RunRecord]) -> bool:
    """Whether all processes chose one timer: others are not to be compared."""
    return len({chosen_kind(record.notes) for record in records}) <= 1


def report(record: dict[str, Any]) -> str:
    """Return the tables."""
    processes = record["processes"]
    kernels = list(dict.fromkeys(kernel for process in processes for kernel in sorted(process, key=_place)))
    values = {kernel: log_values(processes, kernel) for kernel in sorted(kernels, key=_place)}
    about = ", ".join(f"{name} {value}" for name, value in record["machine"].items() if value)
    head = f"{about}; {len(processes)} processes, {record['budget_ms']:g} ms for each timing, {record['seconds']:g} s"
    return "\n\n".join(
        (
            head,
            "Spread between processes (sd of the log), in %:\n" + _table(values, _spread),
            "p of ours spreading no less than theirs (Pitman-Morgan, one-sided):\n" + _p_table(processes, list(values)),
            "Bias against the profiler's durations with a cold cache, in %:\n" + _table(values, _bias),
            "SM clock as metered, mean of the processes, in GHz:\n" + _clock_table(processes, list(values)),
            "Mean, in us:\n" + _table(values, _mean_us),
            *_findings(processes, values),
        )
    )


def _place(kernel: str) -> tuple[int, float]:
    kind, _, target = kernel.partition(" ")
    times_us = {"2us": 2, "5us": 5, "20us": 20, "60us": 60, "200us": 200, "1ms": 1000}
    return ("memory", "compute", "MLP").index(kind), times_us.get(target, 0)


def _table(values: Mapping[str, dict[str, list[float]]], cell: Callable[[dict[str, list[float]], str], float]) -> str:
    rows = [
        [kernel, _us(logs.get(REFERENCE, [])), *(cell(logs, method) for method in COLUMNS)]
        for kernel, logs in values.items()
    ]
    shown = [[None if isinstance(item, float) and math.isnan(item) else item for item in row] for row in rows]
    return tabulate(shown, ["kernel", "profiler us", *COLUMNS], floatfmt=".2f", missingval="")


def _p_table(processes: list[dict[str, Timed]], kernels: Sequence[str]) -> str:
    rows = [[kernel, *(_shown_p(p_no_less(processes, kernel, ADJUSTED, peer)) for peer in PEERS)] for kernel in kernels]
    return tabulate(rows, ["kernel", *PEERS], stralign="right", colalign=("left",), disable_numparse=True)


def _clock_table(processes: list[dict[str, Timed]], kernels: Sequence[str]) -> str:
    methods = {REFERENCE: "profiler", OURS: OURS, EVENTS: EVENTS}
    rows = [[kernel, *(_clock_ghz(processes, kernel, method) for method in methods)] for kernel in kernels]
    return tabulate(rows, ["kernel", *methods.values()], floatfmt=".3f", missingval="")


def _clock_ghz(processes: list[dict[str, Timed]], kernel: str, method: str) -> float | None:
    found = [process.get(kernel, {}).get(method, {}).get("clock_ghz") for process in processes]
    clocks = [clock for clock in found if clock is not None]
    return fmean(clocks) if clocks else None


def p_no_less(processes: list[dict[str, Timed]], kernel: str, one: str, other: str) -> float:
    """Return the p of `one` spreading no less than `other` between the processes that have both.

    Small where its smaller spread is no accident. NaN where fewer than three processes have both.
    """
    needed = [OURS if method == ADJUSTED else method for method in (one, other)]
    both = [p for p in processes if all(not _failed(p.get(kernel, {}).get(n, {"failed": ""})) for n in needed)]
    logs = log_values(both, kernel)
    if len(both) < LEAST_FOR_P or one not in logs or other not in logs:
        return math.nan
    # Two variances seen on the same processes are equal where sums and differences are uncorrelated
    # (Pitman 1939; Morgan 1939).
    sums, differences = zip(*((a + b, b - a) for a, b in zip(logs[one], logs[other], strict=True)), strict=True)
    return float(pearsonr(sums, differences, alternative="greater").pvalue)


def _shown_p(p: float) -> str:
    if math.isnan(p):
        return ""
    return f"{p:.2g}" if p >= SMALLEST_P else f"< {SMALLEST_P:g}"


def _us(logs: list[float]) -> float:
    return math.exp(fmean(logs)) if logs else math.nan


def _spread(logs: dict[str, list[float]], method: str) -> float:
    return 100 * stdev(logs[method]) if len(logs.get(method, [])) > 1 else math.nan


def _bias(logs: dict[str, list[float]], method: str) -> float:
    if method == ADJUSTED or not logs.get(method) or not logs.get(REFERENCE):
        return math.nan
    return 100 * math.expm1(fmean(logs[method]) - fmean(logs[REFERENCE]))


def _mean_us(logs: dict[str, list[float]], method: str) -> float:
    return math.nan if method == ADJUSTED else _us(logs.get(method, []))


def _findings(processes: list[dict[str, Timed]], values: Mapping[str, dict[str, list[float]]]) -> list[str]:
    """Return lines on rows that miss their limit or are not the smallest, on the timers chosen, and on failures."""
    lines = []
    for kernel, logs in values.items():
        ours = _spread(logs, ADJUSTED)
        peers = {method: _spread(logs, method) for method in PEERS if method in logs}
        best = min(peers, key=lambda method: peers[method], default="")
        time_us = median(logs.get(REFERENCE) or logs.get(OURS) or [0.0])
        long = time_us >= math.log(LONG_US) and kernel != "MLP step"
        limit = 100 * LIMITS["long" if long else "short"]
        if not ours <= limit:
            lines.append(f"{kernel}: {ours:.2f} % between processes is beyond the limit of {limit:g} %")
        if best and not ours <= peers[best]:
            p = _shown_p(p_no_less(processes, kernel, best, ADJUSTED))
            lines.append(f"{kernel}: {best} has less ({peers[best]:.2f} % against {ours:.2f} %; p = {p or 'unknown'})")
    notes = {
        f"{kernel}: {note}"
        for kernel, timed in (processes[0] if processes else {}).items()
        for note in timed.get(OURS, {}).get("notes", ())
    }
    failures = {
        f"{kernel}, {method}: {value['failed']}"
        for process in processes
        for kernel, timed in process.items()
        for method, value in timed.items()
        if _failed(value)
    }
    blocks = {"Findings": lines, "Notes of the first process": sorted(notes), "Failures": sorted(failures)}
    return [f"{title}:\n" + "\n".join(block) for title, block in blocks.items() if block]
