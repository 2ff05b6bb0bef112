"""Compile CUDA C++ into small shared libraries, once per source, architecture and compiler.

The sources include no PyTorch header: they export C functions that take raw pointers, sizes and a stream.
That compiles in a few seconds where an extension with PyTorch's headers takes the better part of a minute.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMPILE_TIMEOUT_S = 300


class CudaBuildError(RuntimeError):
    """A CUDA C++ library cannot be built here; the message holds the compiler's output."""


def find_nvcc() -> Path | None:
    """Return the CUDA compiler: under CUDA_HOME or CUDA_PATH, on PATH, or in the usual place; None without one."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    candidates = [Path(home) / "bin" / "nvcc" for home in homes if home]
    on_path = shutil.which("nvcc")
    if on_path:
        candidates.append(Path(on_path))
    candidates.append(Path("/usr/local/cuda/bin/nvcc"))
    return next((c for c in candidates if c.is_file()), None)


def cache_directory() -> Path:
    """Where built libraries are kept: EXAMPLE_KERNELS_CACHE, or the user's cache directory."""
    chosen = os.environ.get("EXAMPLE_KERNELS_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gpuperf-example-kernels"


@functools.cache
def load_library(source: Path, architecture: str) -> ctypes.CDLL:
    """Build `source` for `architecture` (such as "sm_90") unless it is cached, and load it.

    Raises CudaBuildError where there is no compiler, it fails, or the library does not load.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        raise CudaBuildError("nvcc was not found: install the CUDA toolkit, or set CUDA_HOME")
    library = cache_directory() / f"{source.stem}-{architecture}-{_digest(source, nvcc)}.so"
    if not library.exists():
        _build(nvcc, source, architecture, library)
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise CudaBuildError(f"{library} does not load: {error}") from error


def _digest(source: Path, nvcc: Path) -> str:
    """Name what the machine code depends on besides the architecture: the source and the compiler."""
    version = subprocess.run([nvcc, "--version"], capture_output=True, check=False).stdout
    return hashlib.sha256(source.read_bytes() + b"\0" + str(nvcc).encode() + version).hexdigest()[:16]


def _build(nvcc: Path, source: Path, architecture: str, library: Path) -> None:
    """Compile into a temporary file and rename it: no process ever sees half a library."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with _locked(library.with_suffix(".lock")):
        if library.exists():
            return
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            built = Path(scratch) / library.name
            _run(compile_command(nvcc, source, architecture, built))
            built.replace(library)


def compile_command(nvcc: Path, source: Path, architecture: str, output: Path) -> list[str]:
    """Return the compiler's command line for a shared library of one architecture."""
    flags = ["-O3", "-std=c++17", f"-arch={architecture}", "-shared", "-Xcompiler", "-fPIC"]
    return [str(nvcc), *flags, "-o", str(output), str(source)]


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CudaBuildError(f"{command[0]} did not run: {error}") from error
    if done.returncode != 0:
        raise CudaBuildError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold `path` against other processes; the kernel releases it if this one dies."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
