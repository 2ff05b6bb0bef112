"""How a GPU is set up, as far as NVML tells: what does not change from trial to trial and shapes all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_gpuperf.measure.errors import first_line
from pytest_gpuperf.measure.nvml import SM_CLOCK, Nvml, NvmlAbsentError

_NOT_SUPPORTED = ("notsupported", "not supported")
"""How NVML says that a device has no such thing at all, which is no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """None where it cannot be told, or where the device has no such thing."""

    persistence: bool | None = None
    """Whether the driver stays loaded while nobody uses the device."""
    ecc: bool | None = None
    mig: bool | None = None
    """Whether the device is cut into slices."""
    highest_clock_ghz: float | None = None
    power_limit_w: float | None = None
    usual_power_limit_w: float | None = None
    cuda_of_driver: tuple[int, int] | None = None
    """The newest CUDA version that the driver runs."""
    absent: str = ""
    """Why NVML cannot be asked at all; empty where it can."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """What could not be told, and why."""


_QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "persistence": lambda nvml, device: bool(nvml.nvmlDeviceGetPersistenceMode(device)),
    "ecc": lambda nvml, device: bool(nvml.nvmlDeviceGetEccMode(device)[0]),
    "mig": lambda nvml, device: bool(nvml.nvmlDeviceGetMigMode(device)[0]),
    "highest_clock_ghz": lambda nvml, device: nvml.nvmlDeviceGetMaxClockInfo(device, SM_CLOCK) / 1e3,
    "power_limit_w": lambda nvml, device: nvml.nvmlDeviceGetEnforcedPowerLimit(device) / 1e3,
    "usual_power_limit_w": lambda nvml, device: nvml.nvmlDeviceGetPowerManagementDefaultLimit(device) / 1e3,
    # 13020 is 13.2.
    "cuda_of_driver": lambda nvml, _: divmod(nvml.nvmlSystemGetCudaDriverVersion() // 10, 100),
}


def read_facts(nvml: Nvml) -> DeviceFacts:
    """Ask everything; what fails is left out and its reason kept."""
    known: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, question in _QUESTIONS.items():
        try:
            known[name] = nvml.answer(question)
        except NvmlAbsentError as error:
            return DeviceFacts(absent=str(error))
        except Exception as error:
            reason = first_line(error)
            if not any(words in reason.lower() for words in _NOT_SUPPORTED):
                problems[name] = reason
    return DeviceFacts(**known, problems=problems)
