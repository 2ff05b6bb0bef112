"""What the scripts' records have in common: what was measured on, and how they are written."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from pytest_gpuperf.measure.backends.cpu import CpuBackend


def machine() -> dict[str, str]:
    """Say what this was measured on; `gpu` is there where there is one that torch can use."""
    this = CpuBackend().machine()
    about = {"python": platform.python_version(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
    about |= {name: found for name, found in (("torch", this.torch), ("triton", this.triton)) if found}
    if _torch_has_a_gpu():
        # By NVML alone: this process must not hold a context on the device that others are to be measured on.
        about["gpu"] = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
    else:
        about["cpu"] = f"{this.model}, {os.cpu_count()} cores"
    return about


def _torch_has_a_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def write_record(record: Mapping[str, object], path: Path | None, *, indent: int | None = None) -> None:
    """Write a record as strict JSON, where a path was asked for."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=indent, allow_nan=False) + "\n", encoding="utf-8")
