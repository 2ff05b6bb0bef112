"""Letting go of CUPTI, by which torch's profiler sees the device, and which it leaves attached to the process.

Kernels that follow one another in a graph do so later from then on: on an H200 (driver 580, CUDA 13) a step of sixty
short kernels took 1.1 to 1.3 % longer after the first profile of a process, until CUPTI was gone. The checks profile
and a fresh process need not, so that the two would not measure the same. torch does this too if `TEARDOWN_CUPTI=1` is
set, from a thread of its own, whenever that gets to it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

FIRST_SAFE_CUDA = (12, 6)
"""Before, CUPTI could crash a process with graphs when it came back (https://github.com/pytorch/pytorch/pull/151124)."""


class Cupti:
    """Whether profiles of this process have left CUPTI attached."""

    is_attached = False


def detach(torch: Any, index: int, load: Callable[[str], Any] | None = None) -> None:
    """Detach CUPTI if a profile of ours has attached it and nobody is profiling; the next profile attaches it again.

    Nothing else may be launching on the device meanwhile. `load` returns a library that is in the process already.
    """
    if not Cupti.is_attached or torch._C._autograd._profiler_enabled():
        return
    Cupti.is_attached = False
    version = _cuda_version(torch)
    if version < FIRST_SAFE_CUDA:
        return
    try:
        library = (load or _loaded)(f"libcupti.so.{version[0]}")
    except OSError:  # linked into torch itself, or another system's
        return
    torch.cuda.synchronize(index)
    library.cuptiFinalize()


def _cuda_version(torch: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in (torch.version.cuda or "0").split(".")[:2])


def _loaded(name: str) -> Any:
    only_if_loaded = getattr(os, "RTLD_NOLOAD", None)
    if only_if_loaded is None:
        raise OSError(f"no way to look for {name}")
    return ctypes.CDLL(name, mode=only_if_loaded)
