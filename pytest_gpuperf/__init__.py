"""pytest-gpuperf: fails the build on statistically significant slowdowns of GPU code, and only on those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from pytest_gpuperf.calls import BenchResult as BenchResult
    from pytest_gpuperf.compare.pairs import PairedRatio as PairedRatio
    from pytest_gpuperf.compare.scaling import ScalingFit as ScalingFit
    from pytest_gpuperf.comparison import BenchComparison as BenchComparison
    from pytest_gpuperf.gpubench import GpuBench as GpuBench
    from pytest_gpuperf.measure.roofline import arithmetic_intensity as arithmetic_intensity
    from pytest_gpuperf.measure.roofline import critical_batch as critical_batch
    from pytest_gpuperf.measure.roofline import decode_attention_intensity as decode_attention_intensity
    from pytest_gpuperf.measure.roofline import least_time_us as least_time_us
    from pytest_gpuperf.measure.roofline import ridge_point as ridge_point
    from pytest_gpuperf.sweep import BenchSweep as BenchSweep
    from pytest_gpuperf.sweep import SweepPoint as SweepPoint

    perf: pytest.MarkDecorator

__all__ = [
    "BenchComparison",
    "BenchResult",
    "BenchSweep",
    "GpuBench",
    "PairedRatio",
    "ScalingFit",
    "SweepPoint",
    "arithmetic_intensity",
    "critical_batch",
    "decode_attention_intensity",
    "least_time_us",
    "perf",
    "ridge_point",
]

_HOMES = {
    "BenchComparison": "comparison",
    "BenchResult": "calls",
    "BenchSweep": "sweep",
    "GpuBench": "gpubench",
    "PairedRatio": "compare.pairs",
    "ScalingFit": "compare.scaling",
    "SweepPoint": "sweep",
    "arithmetic_intensity": "measure.roofline",
    "critical_batch": "measure.roofline",
    "decode_attention_intensity": "measure.roofline",
    "least_time_us": "measure.roofline",
    "ridge_point": "measure.roofline",
}


def __getattr__(name: str) -> Any:
    # Lazy, so that the package costs nothing where it is merely installed.
    if name == "perf":
        import pytest

        return pytest.mark.perf
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(f"pytest_gpuperf.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
