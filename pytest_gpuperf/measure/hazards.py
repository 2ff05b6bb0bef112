"""Circumstances under which every measurement is off: told on each result, and never stored unless forced."""

from __future__ import annotations

import os
import sys

SANITIZER_LIBRARIES = ("libasan", "libtsan", "libubsan", "libsanitizer")
INJECTED_LIBRARY = "Injection"
"""What the preloaded libraries of GPU profilers and sanitizers have in their names."""
INJECTION_VARIABLES = (
    "CUDA_INJECTION64_PATH",
    "NV_SANITIZER_INJECTION_PORT_BASE",
    "NV_NSIGHT_INJECTION_PORT_BASE",
    "NSYS_PROFILING_SESSION_ID",
)
"""Set by any CUPTI tool, compute-sanitizer, ncu and nsys in the processes that they start."""
MONITORING_TOOLS = {0: "a debugger", 1: "a coverage tool", 2: "a profiler"}


def hazards() -> tuple[str, ...]:
    """Return one sentence for each circumstance that slows down what is timed now, in this process."""
    found = [*_environment(), *_python(), *_torch()]
    return tuple(dict.fromkeys(found))


def _environment() -> list[str]:
    found = []
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        found.append("CUDA_LAUNCH_BLOCKING is set: every launch waits for the GPU")
    found += [
        f"{name} is set: a GPU profiler or sanitizer is attached" for name in INJECTION_VARIABLES if name in os.environ
    ]
    preloaded = os.environ.get("LD_PRELOAD", "")
    if INJECTED_LIBRARY in preloaded:
        found.append("a GPU profiler or sanitizer is preloaded (LD_PRELOAD)")
    if any(library in preloaded for library in SANITIZER_LIBRARIES):
        found.append("a sanitizer is preloaded (LD_PRELOAD)")
    return found


def _python() -> list[str]:
    found = []
    if sys.gettrace() is not None:
        found.append("a debugger or tracer is active (sys.settrace)")
    if sys.getprofile() is not None:
        found.append("a Python profiler is active (sys.setprofile)")
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        active = [what for tool, what in MONITORING_TOOLS.items() if monitoring.get_tool(tool) is not None]
        found += [f"{what} is active (sys.monitoring)" for what in active]
    return found


def _torch() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    found = []
    if torch._C._autograd._profiler_enabled():
        found.append("torch.profiler is active")
    if torch.is_anomaly_enabled():
        found.append("autograd's anomaly detection is on")
    return found
