"""The devices that calls are measured on, one file each."""

from __future__ import annotations

import ctypes
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.measure.device_code import DRIVERS
from pytest_gpuperf.measure.errors import DeviceUnavailableError, first_line

if TYPE_CHECKING:
    from pytest_gpuperf.measure.backends.base import Backend

KNOWN_DEVICES = "`cpu`, `cuda` or `cuda:N`"


def backend_for(device: str | None) -> Backend:
    """Return the back end for `device` (`cuda`, `cuda:1`, `cpu`); None: the GPU where there is one, else the CPU.

    torch is imported only where a GPU is asked for or its driver is installed.
    Raises `DeviceUnavailableError` for a device that is unknown or not there.
    """
    if device is None:
        return _accelerator() or _cpu()
    kind, _, index = device.strip().lower().partition(":")
    if kind == "cpu" and index in ("", "0"):
        return _cpu()
    if kind != "cuda" or not (index == "" or index.isdecimal()):
        raise DeviceUnavailableError(f"--gpuperf-device={device}: unknown device; known are {KNOWN_DEVICES}")
    return _cuda(device, int(index) if index else None)


def _cpu() -> Backend:
    from pytest_gpuperf.measure.backends.cpu import CpuBackend

    return CpuBackend()


def _accelerator() -> Backend | None:
    if not _driver_installed() or find_spec("torch") is None:
        return None
    return _cuda("cuda", None) if _available(_imported_torch("a GPU's driver is installed"))[0] else None


def _cuda(asked: str, index: int | None) -> Backend:
    torch = _torch_with_cuda(asked)
    count = torch.cuda.device_count()
    chosen = torch.cuda.current_device() if index is None else index
    if chosen >= count:
        available = ", ".join(f"cuda:{i}" for i in range(count))
        raise DeviceUnavailableError(f"--gpuperf-device={asked}: there is no such GPU; available: {available}")
    from pytest_gpuperf.measure.backends.cuda import CudaBackend

    return CudaBackend(chosen)


def _torch_with_cuda(asked: str) -> Any:
    if find_spec("torch") is None:
        raise DeviceUnavailableError(
            f"--gpuperf-device={asked}: torch is not installed (pip install 'pytest-gpuperf[torch]'); "
            "without it, measure with --gpuperf-device=cpu"
        )
    torch = _imported_torch(f"--gpuperf-device={asked}")
    available, reason = _available(torch)
    if not available:
        built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
        raise DeviceUnavailableError(
            f"--gpuperf-device={asked}: torch {torch.__version__} (built for {built}) finds no usable GPU{reason}; "
            "see `nvidia-smi`, or measure with --gpuperf-device=cpu"
        )
    return torch


def _imported_torch(wanted_because: str) -> Any:
    problem = torch_problem()
    if problem:
        raise DeviceUnavailableError(
            f"{wanted_because}, and torch cannot be imported ({problem}): install it anew, or measure with "
            "--gpuperf-device=cpu"
        )
    return sys.modules["torch"]


def torch_problem() -> str:
    """Return why the torch that is installed cannot be imported; empty where it can, and is now, or there is none."""
    if find_spec("torch") is None:
        return ""
    try:
        import_module("torch")
    except Exception as error:  # whatever a half-installed package raises
        return first_line(error)
    return ""


def _available(torch: Any) -> tuple[bool, str]:
    """Whether torch can use a GPU, and what it warns of if not (an old driver, say)."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
    return available, f" ({str(told[0].message).splitlines()[0]})" if told else ""


def _driver_installed() -> bool:
    if "torch" in sys.modules:
        return True
    library = DRIVERS.get(sys.platform)
    if library is None:
        return False
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
