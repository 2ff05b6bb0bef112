"""What a device can do at most: the figures that a speed is held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TRANSFERS_PER_CLOCK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The highest rates of a device; None where not known."""

    bytes_per_s: float | None = None
    flops_per_s: float | None = None
    cache_bytes: int = 0
    """What fits into the last-level cache need not pass through memory."""


def rated_ceilings(properties: Any) -> Ceilings | None:
    """Return the memory's rated bandwidth by `torch.cuda.get_device_properties`: clock × bus width × 2.

    None where torch does not tell the clock or the width.
    """
    clock_khz = getattr(properties, "memory_clock_rate", 0)
    width_bits = getattr(properties, "memory_bus_width", 0)
    if not clock_khz or not width_bits:
        return None
    return Ceilings(
        bytes_per_s=clock_khz * 1e3 * width_bits / 8 * TRANSFERS_PER_CLOCK,
        cache_bytes=int(getattr(properties, "L2_cache_size", 0)),
    )
