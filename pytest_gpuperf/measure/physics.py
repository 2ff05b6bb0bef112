"""One result beside the machine's ceilings: its rates, the bound that holds, its share of the speed of light."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pytest_gpuperf.measure.ceilings import Ceiling, Ceilings
from pytest_gpuperf.measure.plan import Identity, Workload
from pytest_gpuperf.measure.samples import RunRecord

Bound = Literal["memory", "compute", ""]

MOST_SPREAD = 0.5

_BY_DTYPE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_DTYPE = re.compile(r"\b((?:bfloat|float|complex|u?int|bool)\w*)\[")
_WITHOUT_CEILING = re.compile(r"\b(?:float8\w*|float4\w*|u?int8)\[")
"""Tensors of types whose arithmetic may be quicker than any that is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Physics:
    """What the stated bytes and operations of one call come to."""

    terabytes_per_second: float | None = None
    teraflops_per_second: float | None = None
    share: float | None = None
    """The least time by the ceilings over the mean time: 1 is the speed of light. None where no ceiling applies."""
    share_low: float | None = None
    share_high: float | None = None
    """The share at the ends of the mean's 95 % interval."""
    bound: Bound = ""
    """What the least time comes from."""
    ceiling: str = ""
    """The ceiling of that bound, in words: `3.92 TB/s copied`, `797 TFLOP/s bf16`."""
    impossible: str = ""
    """How the time breaks a ceiling beyond every margin; empty where it does not."""


def assess(
    record: RunRecord, identity: Identity, ceilings: Ceilings | None, float32_arithmetic: str = "fp32"
) -> Physics:
    """Hold one run against the ceilings (None: only the rates are told).

    `float32_arithmetic` says what fp32 matrices are multiplied in: `fp32` or `tf32`.
    """
    workload = identity.workload
    rates = Physics(
        terabytes_per_second=_per_second(workload.bytes_moved, record.mean_us),
        teraflops_per_second=_per_second(workload.flops, record.mean_us),
    )
    if ceilings is None:
        return rates
    arithmetic = _arithmetic(workload, ceilings, float32_arithmetic)
    compute = None if arithmetic is None or workload.flops is None else ceilings.matmul[arithmetic]
    memory = ceilings.bandwidth if _through_memory(identity, ceilings) else None
    compute_us, memory_us = _least_us(workload.flops, compute), _least_us(workload.bytes_moved, memory)
    least_us = max(compute_us, memory_us)
    if not least_us:
        return rates
    computes = compute is not None and compute_us >= memory_us
    return Physics(
        terabytes_per_second=rates.terabytes_per_second,
        teraflops_per_second=rates.teraflops_per_second,
        share=least_us / record.mean_us,
        share_low=least_us / (record.mean_us + record.half_width_us),
        share_high=least_us / max(record.mean_us - record.half_width_us, 1e-9),
        bound="compute" if computes else "memory",
        ceiling=_in_words(compute if computes else None, arithmetic, ceilings),
        impossible=_impossible(record, identity, ceilings),
    )


def _in_words(compute: Ceiling | None, arithmetic: str | None, ceilings: Ceilings) -> str:
    if compute is None:
        return f"{speed(ceilings.bandwidth.per_s, 'B/s')} copied"
    return f"{speed(compute.per_s, 'FLOP/s')} {arithmetic}"


def bytes_through_memory(identity: Identity, cache_bytes: int | None) -> float:
    """Return how many of the stated bytes must pass through memory within the timed call, whatever the cache does.

    What was written last may still be in the cache when the time is taken; where it is not flushed before, what is
    read first may be in it already. Each spares at most what the cache holds. Of a cache of unknown size: 0.
    """
    moved = identity.workload.bytes_moved
    if moved is None or cache_bytes is None:
        return 0.0
    return max(0.0, moved - (1 if identity.cache == "cold" else 2) * cache_bytes)


def _through_memory(identity: Identity, ceilings: Ceilings) -> bool:
    """Whether the memory's bandwidth says anything: a warm call that fits into the cache is bound by the cache."""
    return identity.cache == "cold" or bytes_through_memory(identity, ceilings.cache_bytes) > 0


def _impossible(record: RunRecord, identity: Identity, ceilings: Ceilings) -> str:
    """Say which ceiling the mean breaks, the fastest arithmetic and the kindest cache granted."""
    slowest_us = record.mean_us + record.half_width_us
    moved = bytes_through_memory(identity, ceilings.cache_bytes)
    rate = moved / (slowest_us * 1e-6)
    if rate > ceilings.bandwidth.per_s * ceilings.margin * _doubt(ceilings.bandwidth):
        return (
            f"{moved:.4g} bytes have to pass through memory, in {record.mean_us:.4g} us: {speed(rate, 'B/s')}, where "
            f"this machine copies {speed(ceilings.bandwidth.per_s, 'B/s')}"
        )
    flops = identity.workload.flops
    if flops is None or not ceilings.matmul or _WITHOUT_CEILING.search(identity.workload.arguments):
        return ""
    kind, fastest = max(ceilings.matmul.items(), key=lambda item: item[1].per_s)
    rate = flops / (slowest_us * 1e-6)
    if rate > fastest.per_s * _clock_margin(record, fastest, ceilings) * _doubt(fastest):
        return (
            f"{flops:.4g} operations in {record.mean_us:.4g} us are {speed(rate, 'FLOP/s')}, where this machine "
            f"multiplies matrices at {speed(fastest.per_s, 'FLOP/s')} ({kind}, its fastest)"
        )
    return ""


def _doubt(ceiling: Ceiling) -> float:
    """The factor for a ceiling's own uncertainty; bounded, as a wide spread tells of disturbance, not of speed."""
    return 1 + min(ceiling.spread, MOST_SPREAD)


def _clock_margin(record: RunRecord, ceiling: Ceiling, ceilings: Ceilings) -> float:
    """Arithmetic goes with the clock, which a cool or idle card raises far above what it sustains."""
    if record.clock_ghz is None or ceiling.clock_ghz is None:
        return ceilings.clock_margin
    return ceilings.margin * max(1.0, record.clock_ghz / ceiling.clock_ghz)


def _arithmetic(workload: Workload, ceilings: Ceilings, float32_arithmetic: str) -> str | None:
    """Return which matmul rate the arguments' types ask for; the fastest where there are no tensors to tell by."""
    if not ceilings.matmul or _WITHOUT_CEILING.search(workload.arguments):
        return None
    floats = [name for name in _DTYPE.findall(workload.arguments) if "float" in name or "complex" in name]
    kinds = [_BY_DTYPE[name] for name in floats if name in _BY_DTYPE]
    if floats and not kinds:
        return None
    if "fp32" in kinds and float32_arithmetic in ceilings.matmul:
        kinds = [float32_arithmetic if kind == "fp32" else kind for kind in kinds]
    known = [kind for kind in kinds or ceilings.matmul if kind in ceilings.matmul]
    return max(known, key=lambda kind: ceilings.matmul[kind].per_s, default=None)


def _least_us(amount: float | None, ceiling: Ceiling | None) -> float:
    return 0.0 if amount is None or ceiling is None else amount / ceiling.per_s * 1e6


def _per_second(amount: float | None, mean_us: float) -> float | None:
    """Return `amount` a call as 10^12 a second: amount / (mean_us * 1e-6) / 1e12."""
    return None if amount is None else amount / mean_us / 1e6


def speed(per_s: float, unit: str) -> str:
    """Say a rate in bytes or operations a second: `3.92 TB/s`, `26.2 GFLOP/s`."""
    value, prefix = (per_s / 1e12, "T") if per_s >= 1e11 else (per_s / 1e9, "G")
    return f"{value:.0f} {prefix}{unit}" if 100 <= value < 1e6 else f"{value:.3g} {prefix}{unit}"
