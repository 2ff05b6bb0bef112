"""Time callables on the GPU: queued behind a spin, L2 flushed before each call, rivals interleaved.

Rivals take turns in short batches, so that a clock that wanders meets all of them alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import torch

FLUSH_BYTES = 256 * 2**20
SPIN_CYCLES_A_LAUNCH = 60_000
WARM_UP_CALLS = 3


def time_rivals_us(
    rivals: Mapping[str, Callable[[], object]], *, rounds: int = 6, calls: int = 8, launches: int = 4
) -> dict[str, float]:
    """Return the median time of each callable in microseconds; nan for one that raises.

    `launches` is how many kernels a call launches at most: the spin gives the host time to queue them.
    """
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    working = {name: call for name, call in rivals.items() if _warms_up(name, call)}
    samples: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, call in working.items():
            samples[name] += _batch_us(call, calls, launches, flush)
    return {name: statistics.median(times) if times else float("nan") for name, times in samples.items()}


def _warms_up(name: str, call: Callable[[], object]) -> bool:
    try:
        for _ in range(WARM_UP_CALLS):
            call()
        torch.cuda.synchronize()
    except Exception as error:
        print(f"    {name}: {type(error).__name__}: {str(error)[:200]}")
        return False
    return True


def _batch_us(call: Callable[[], object], calls: int, launches: int, flush: torch.Tensor) -> list[float]:
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(calls)]
    torch.cuda._sleep(SPIN_CYCLES_A_LAUNCH * calls * (launches + 3))
    for start, end in pairs:
        flush.zero_()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [1e3 * start.elapsed_time(end) for start, end in pairs]
