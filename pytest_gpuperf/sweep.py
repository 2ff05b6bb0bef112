"""What `gpubench.sweep` returns: one function at several sizes, and the exponent of its time."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.stated import finite_number, positive_number, shown

if TYPE_CHECKING:
    from pytest_gpuperf.calls import BenchResult
    from pytest_gpuperf.compare.scaling import ScalingFit


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One size of a sweep."""

    size: float
    result: BenchResult
    fitted: bool
    """Whether the exponents are fitted to this size too: not below `fit_from`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSweep:
    """A function that was timed at several sizes, interleaved in one run.

    In a session that does not measure, it was called once at each size: there are no points, the fits are None, and the
    assertions pass. So they do in the fresh processes that a gate or a baseline consists of, which only measure.
    """

    sizes: tuple[float, ...]
    points: tuple[SweepPoint, ...]
    """The usual figures at each size; empty in a session that does not measure."""
    fit_from: float | None
    """The smallest size that the exponents are fitted to; None for all."""
    time_fit: ScalingFit | None = field(repr=False)
    memory_fit: ScalingFit | None = field(repr=False)
    """Of peak memory; None where that is not known, or zero, at a fitted size."""
    binding: bool = True
    """Whether assertions are held to this process's run."""

    @property
    def exponent(self) -> float | None:
        """The exponent k of time ~ size^k."""
        return None if self.time_fit is None else self.time_fit.exponent

    @property
    def interval(self) -> tuple[float, float] | None:
        """The exponent's 95 % interval."""
        return None if self.time_fit is None else (self.time_fit.low, self.time_fit.high)

    @property
    def memory_exponent(self) -> float | None:
        """The exponent k of peak memory ~ size^k."""
        return None if self.memory_fit is None else self.memory_fit.exponent

    @property
    def memory_interval(self) -> tuple[float, float] | None:
        """The memory exponent's 95 % interval; peak memory has no noise, so it is about the law alone."""
        return None if self.memory_fit is None else (self.memory_fit.low, self.memory_fit.high)

    def assert_scaling(self, exponent: float, *, tolerance: float = 0.1) -> None:
        """Fail unless the whole 95 % interval of time's exponent is within `tolerance` of `exponent`.

        Raises `AssertionError`, which says whether the exponent is another one or not known well enough; `ValueError`
        for impossible arguments.
        """
        __tracebackhide__ = True
        self._assert("time", self.time_fit, exponent, tolerance)

    def assert_memory_scaling(self, exponent: float, *, tolerance: float = 0.1) -> None:
        """Fail unless the whole 95 % interval of peak memory's exponent is within `tolerance` of `exponent`.

        Passes where peak memory is not known, as on a CPU. Raises as `assert_scaling` does.
        """
        __tracebackhide__ = True
        self._assert("peak memory", self.memory_fit, exponent, tolerance)

    def table(self) -> str:
        """Return the sweep as text, with the exponents under it."""
        from pytest_gpuperf.report.side_by_side import sweep_table

        rows = [(name_of(point.size), point.result.record, point.fitted) for point in self.points]
        return sweep_table(rows, self.time_fit, self.memory_fit, [name_of(size) for size in self.sizes])

    def _assert(self, figure: str, fit: ScalingFit | None, exponent: float, tolerance: float) -> None:
        __tracebackhide__ = True
        if finite_number(exponent) is None or positive_number(tolerance) is None:
            raise ValueError(
                "exponent must be a finite number and tolerance a positive one, "
                f"not exponent={shown(exponent)}, tolerance={shown(tolerance)}"
            )
        low, high = exponent - tolerance, exponent + tolerance
        if fit is None or not self.binding or (low <= fit.low and fit.high <= high):
            return
        raise AssertionError(self._not_scaling(figure, fit, f"{exponent:g} ± {tolerance:g}", low, high))

    def _not_scaling(self, figure: str, fit: ScalingFit, wanted: str, low: float, high: float) -> str:
        found = f"{figure} goes with size^{fit.exponent:.3g} [{fit.low:.3g}, {fit.high:.3g}] over {fit.sizes} sizes"
        if fit.high < low or fit.low > high:
            first = f"{found}, not with size^({wanted})"
        else:
            first = f"{found}: not known well enough to be within {wanted}; more or further sizes make it surer"
        return "\n".join((first, *self._small_sizes(figure)))

    def _small_sizes(self, figure: str) -> list[str]:
        """Name the fitted sizes whose time is the launch's, or the timer's."""
        from pytest_gpuperf.measure.notes import AT_FLOOR_NOTE, LAUNCH_BOUND_NOTE

        small = [
            name_of(point.size)
            for point in self.points
            if point.fitted and {AT_FLOOR_NOTE, LAUNCH_BOUND_NOTE} & set(point.result.notes)
        ]
        if not small or figure != "time":
            return []
        return [
            f"launch-bound or at the timer's floor: {', '.join(small)}; leave such sizes out of the fit (fit_from=)"
        ]


def name_of(size: float) -> str:
    """Return the name of a size's benchmark."""
    return f"{size}"


def checked_sizes(sizes: Iterable[float], fit_from: float | None) -> tuple[Any, ...]:
    """Return the sizes as Python's own numbers: two distinct positive ones or more to fit, and no size twice.

    Raises `ValueError`, or `TypeError` for what are no sizes at all.
    """
    if not isinstance(sizes, Iterable):
        raise TypeError(f"sizes must be several positive numbers, such as [256, 512, 1024], not {shown(sizes)}")
    if fit_from is not None and finite_number(fit_from) is None:
        raise ValueError(f"fit_from must be a size, not {shown(fit_from)}")
    found = tuple(_size(size) for size in sizes)
    if len(set(found)) != len(found):
        raise ValueError("every size must be given once")
    if sum(is_fitted(size, fit_from) for size in found) < 2:
        raise ValueError("an exponent needs two sizes" + ("" if fit_from is None else f" of at least {fit_from}"))
    return found


def _size(size: Any) -> float:
    """Return a size as an int or a float, of which NumPy has kinds of its own that not every function takes."""
    number = positive_number(size)
    if number is None:
        raise ValueError(f"sizes must be positive numbers, not {shown(size)}")
    return int(size) if isinstance(size, numbers.Integral) else number


def is_fitted(size: float, fit_from: float | None) -> bool:
    """Whether exponents are fitted to this size."""
    return fit_from is None or size >= fit_from


def sweep_of(
    sizes: Sequence[float],
    results: Sequence[BenchResult],
    log_times: Sequence[dict[int, float]],
    *,
    fit_from: float | None,
    binding: bool,
) -> BenchSweep:
    """Fit the exponents to what was measured; `log_times` are by the number of the round."""
    from pytest_gpuperf.compare.scaling import fit_scaling

    fitted = [index for index, size in enumerate(sizes) if is_fitted(size, fit_from)]
    common = set.intersection(*(set(log_times[index]) for index in fitted))
    rounds = [[log_times[index][number] for index in fitted] for number in sorted(common)]
    fitted_sizes = [sizes[index] for index in fitted]
    peaks_bytes = [results[index].peak_memory_bytes or 0 for index in fitted]
    logs = [math.log(peak) for peak in peaks_bytes] if all(peaks_bytes) else None
    return BenchSweep(
        sizes=tuple(sizes),
        points=tuple(
            SweepPoint(size=size, result=result, fitted=is_fitted(size, fit_from))
            for size, result in zip(sizes, results, strict=True)
        ),
        fit_from=fit_from,
        time_fit=fit_scaling(fitted_sizes, rounds) if rounds else None,
        memory_fit=None if logs is None else fit_scaling(fitted_sizes, [logs]),
        binding=binding,
    )
