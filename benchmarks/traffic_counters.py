"""Two counters of what a GPU's memory moves: NVML's, which anyone may read, and those of Nsight Compute.

Nothing here needs a GPU, or torch: who measures hands over a way to launch, and NVML, or a command's output.

NVML tells which share of its bandwidth the memory used between two samples. What the whole bandwidth is comes from a
copy whose bytes are known. Nsight Compute counts the bytes of every kernel, read and written apart, if it is allowed.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}
USUAL_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
DRAM_BANDWIDTH_USED = 10
"""NVML_GPM_METRIC_DRAM_BW_UTIL: percent of what the memory could move at most."""


class RefusedError(Exception):
    """The counters cannot be read here: not there, or not allowed."""


@dataclass(frozen=True, kw_only=True)
class KernelTraffic:
    """What one launch of a kernel moved."""

    kernel: str
    read_bytes: float
    written_bytes: float


def find_ncu() -> str:
    """Return the path of Nsight Compute's command line. Raises RefusedError where it is not installed."""
    for candidate in (shutil.which("ncu"), *USUAL_PLACES):
        if candidate and Path(candidate).exists():
            return candidate
    raise RefusedError("Nsight Compute (ncu) is not installed")


def ncu_command(ncu: str, program: Sequence[str]) -> list[str]:
    """Return the command that counts in `program` what lies between its cudaProfilerStart and cudaProfilerStop."""
    options = ["--profile-from-start", "off", "--csv", "--print-units", "base"]
    options += ["--clock-control", "none", "--cache-control", "none"]
    return [ncu, *options, "--metrics", f"{READ},{WRITTEN}", *program]


def counted_by_ncu(ncu: str, program: Sequence[str], timeout_s: float) -> list[KernelTraffic]:
    """Return what every kernel of `program` moved. Raises RefusedError with what ncu said."""
    try:
        done = subprocess.run(ncu_command(ncu, program), capture_output=True, text=True, check=False, timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from error
    kernels = parse_ncu(done.stdout)
    if not kernels:
        raise RefusedError(why_refused(done.stdout + done.stderr))
    return kernels


def parse_ncu(text: str) -> list[KernelTraffic]:
    """Return the launches of ncu's CSV, in their order; lines of its own and of the program's are passed over."""
    launches: dict[str, dict[str, Any]] = {}
    for row in _csv_rows(text):
        if row.get("Metric Name") not in (READ, WRITTEN):
            continue
        launch = launches.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        launch[row["Metric Name"]] = _bytes(row["Metric Value"], row["Metric Unit"])
    return [
        KernelTraffic(kernel=launch["kernel"], read_bytes=launch[READ], written_bytes=launch[WRITTEN])
        for launch in launches.values()
        if READ in launch and WRITTEN in launch
    ]


def segments(kernels: Sequence[KernelTraffic], separator: str) -> list[list[KernelTraffic]]:
    """Return what was launched after each kernel whose name has `separator` in it, up to the next one."""
    found: list[list[KernelTraffic]] = []
    for kernel in kernels:
        if separator in kernel.kernel:
            found.append([])
        elif found:
            found[-1].append(kernel)
    return found


def _csv_rows(text: str) -> Iterable[dict[str, str]]:
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), len(lines))
    return csv.DictReader(line for line in lines[start:] if line.startswith('"'))


def _bytes(value: str, unit: str) -> float:
    if unit not in UNITS:
        raise ValueError(f"ncu counted in {unit!r}, not in bytes")
    return float(value.replace(",", "")) * UNITS[unit]


def why_refused(output: str) -> str:
    """Return why ncu counted nothing, in its own words, and what they mean where they are known."""
    if "ERR_NVGPUCTRPERM" in output:
        return "the driver lets only administrators read performance counters (ERR_NVGPUCTRPERM)"
    for mark in ("==ERROR==", "==WARNING=="):
        for line in output.splitlines():
            if mark in line:
                return f"ncu: {line.split(mark, 1)[1].strip()}"
    return "ncu: no kernel was counted"


class BandwidthMeter:
    """NVML's share of the memory's bandwidth between two moments. Raises RefusedError where it has no such counter."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        try:
            supported = nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
        except Exception as error:
            raise RefusedError(f"NVML: {error}") from error
        if not supported:
            raise RefusedError("NVML: this device has no counters of its memory (they came with Hopper)")
        self._handle = handle

    def share_used(self, work: Callable[[], None]) -> float:
        """Return the share of the bandwidth that is used while `work` runs, which takes a tenth of a second or more."""
        first, second = self._nvml.nvmlGpmSampleAlloc(), self._nvml.nvmlGpmSampleAlloc()
        try:
            self._nvml.nvmlGpmSampleGet(self._handle, first)
            work()
            self._nvml.nvmlGpmSampleGet(self._handle, second)
            return self._between(first, second)
        except RefusedError:
            raise
        except Exception as error:
            raise RefusedError(f"NVML: {error}") from error
        finally:
            self._nvml.nvmlGpmSampleFree(first)
            self._nvml.nvmlGpmSampleFree(second)

    def _between(self, first: Any, second: Any) -> float:
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = self._nvml.NVML_GPM_METRICS_GET_VERSION, 1
        request.sample1, request.sample2 = first, second
        request.metrics[0].metricId = DRAM_BANDWIDTH_USED
        answer = self._nvml.nvmlGpmMetricsGet(request).metrics[0]
        status = getattr(answer.nvmlReturn, "value", answer.nvmlReturn)
        if status != 0 or not 0 <= answer.value <= 100:
            raise RefusedError(f"NVML: the memory's counter answered {answer.value} (status {status})")
        return float(answer.value) / 100


@dataclass(frozen=True, kw_only=True)
class Bandwidth:
    """The bytes a second that NVML calls the whole bandwidth, as a copy of known bytes tells."""

    bytes_per_s: float

    @classmethod
    def of_copy(cls, copied_bytes: float, share: float, seconds_a_call: float) -> Bandwidth:
        """Return it from copies that read and write `copied_bytes` each, and used this share of it."""
        if share <= 0 or seconds_a_call <= 0:
            raise RefusedError("NVML: the memory's counter did not move while a copy ran")
        return cls(bytes_per_s=copied_bytes / (share * seconds_a_call))

    def bytes_a_call(self, share: float, seconds_a_call: float) -> float:
        """Return what a call moved, of calls that followed one another and used this share of the bandwidth."""
        return self.bytes_per_s * share * seconds_a_call
