"""What the scripts' records have in common: what was measured on, and how they are written.

A script that measures for longer than seconds writes its record again after every part of it, and measures within
`EndedEarly` (early_end.py): a time limit leaves what there was, in the file and on the screen.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from pytest_gpuperf.measure.backends.cpu import CpuBackend
from pytest_gpuperf.store.files import write_text_whole

ROOT = Path(__file__).resolve().parents[1]
CODE = ("pytest_gpuperf", "example_kernels", "benchmarks/suites")


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


def code_digest() -> str:
    """Return a digest of the code that measures and is measured: records are continued by the same code only."""
    sources = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))
    digest = hashlib.sha256()
    for path in sources:
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def differing(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Say in which facts two records differ, their dates aside."""
    keys = [key for key in {**one, **other} if key != "date" and one.get(key) != other.get(key)]
    return [f"{key} {one.get(key, '(not said)')} there, {other.get(key, '(not said)')} here" for key in keys]


def write_record(record: Mapping[str, object], path: Path | None, *, indent: int | None = None) -> None:
    """Write a record as strict JSON, where a path was asked for; an end meanwhile leaves the one before."""
    if path:
        write_whole(json.dumps(record, indent=indent, allow_nan=False) + "\n", path)


def write_whole(text: str, path: Path) -> None:
    """Write a file as a whole: one that is ended while it writes has not lost what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_whole(path, text)
