"""Whether a call gives the GPU anything to do, as the profiler sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_gpuperf.measure.device_profile import profiled


def profiled_work(torch: Any, call: Callable[[], Any], index: int) -> bool | None:
    """Return whether the profiler sees more device work with the call than without it; None where it cannot tell.

    A known piece of work is profiled both times: a profiler that does not see that is not believed on the rest.
    The first profile in a process takes seconds, later ones milliseconds.
    """
    probe = torch.zeros(1, device=f"cuda:{index}")

    def known() -> None:
        probe.add_(1)

    def known_and_call() -> None:
        probe.add_(1)
        call()

    try:
        without = len(profiled(torch, known, index))
    except RuntimeError:
        return None
    if not without:
        return None
    return len(profiled(torch, known_and_call, index)) > without
