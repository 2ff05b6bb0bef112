"""pytest-gpuperf: fails the build on statistically significant slowdowns of GPU code, and only on those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from pytest_gpuperf.gpubench import BenchResult as BenchResult
    from pytest_gpuperf.gpubench import GpuBench as GpuBench

    perf: pytest.MarkDecorator

__all__ = ["BenchResult", "GpuBench", "perf"]


def __getattr__(name: str) -> Any:
    # Lazy, so that the package costs nothing where it is merely installed.
    if name == "perf":
        import pytest

        return pytest.mark.perf
    if name in ("BenchResult", "GpuBench"):
        from pytest_gpuperf import gpubench

        return getattr(gpubench, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
