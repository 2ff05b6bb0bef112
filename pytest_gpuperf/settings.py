"""What can be set, with its default and its limits; read from options, ini and markers by `options`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TimerChoice = Literal["auto", "events", "graph", "kernel", "wall"]
CacheMode = Literal["cold", "warm"]
CheckMode = Literal["off", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSettings:
    """How one benchmark is measured and judged; every field can be set by the marker of the same name."""

    timer: TimerChoice = "auto"
    cache: CacheMode = "cold"
    warmup: int = 10
    trials: int | None = None
    max_time: float = 1.0
    min_effect: float = 0.01
    detectable: float = 0.05
    alpha: float = 1e-3
    checks: CheckMode = "warn"
