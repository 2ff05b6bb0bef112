"""What torch's profiler sees of the device: kernels, copies and memsets, with durations and streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.measure.cupti import Cupti


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpan:
    """One kernel, copy or memset."""

    name: str
    start_us: float = 0.0
    duration_us: float = 0.0
    stream: int = 0
    launch: int = 0
    """Ascends with the order of launches on the host; what one graph launches has one number in common."""


def profiled(torch: Any, run: Callable[[], Any], index: int) -> tuple[DeviceSpan, ...]:
    """Return what the device did while `run` ran and until it had nothing left to do.

    The first profile in a process takes seconds, later ones milliseconds. It leaves CUPTI attached (`cupti.detach`).
    """
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        run()
        torch.cuda.synchronize(index)
    on_device = torch.autograd.DeviceType.CUDA
    spans = tuple(
        _span(event)
        for event in profile.events()
        if event.device_type == on_device and not getattr(event, "is_user_annotation", False)
    )
    if spans:  # otherwise CUPTI may be another's
        Cupti.is_attached = True
    return spans


def _span(event: Any) -> DeviceSpan:
    return DeviceSpan(
        name=str(event.name),
        start_us=float(event.time_range.start),
        duration_us=float(event.time_range.elapsed_us()),
        stream=int(getattr(event, "device_resource_id", 0) or 0),
        launch=int(event.id),
    )
