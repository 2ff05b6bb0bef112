"""What `gpubench.compare` returns: implementations measured in turn, with the ratios of their times."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_gpuperf.compare.pairs import PairedRatio, paired_ratio
from pytest_gpuperf.compare.pareto import Axis, pareto_front
from pytest_gpuperf.stated import positive_number, shown

if TYPE_CHECKING:
    from pytest_gpuperf.calls import BenchResult, Together


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchComparison:
    """Implementations that were timed interleaved in one run.

    In a session that does not measure, each was called once and verified: there are no `results`, ratios are None, and
    `assert_faster` passes. So it does in the fresh processes that a gate or a baseline consists of, which only measure:
    the claim is held to the session's own run.
    """

    names: tuple[str, ...]
    results: Mapping[str, BenchResult]
    """The usual figures of each implementation, peak memory among them; empty in a session that does not measure."""
    errors: Mapping[str, float | None]
    """How far each output is from the reference's (`error=`, by default the largest difference over the reference's
    largest magnitude); None without a reference, or where there are no floating-point numbers to compare."""
    log_times: Mapping[str, Mapping[int, float]] = field(repr=False)
    """Log of the median trial in microseconds, by the number of the round."""
    binding: bool = True
    """Whether assertions on times are held to this process's run."""

    def ratio(self, name: str, *, to: str) -> PairedRatio | None:
        """Return the time of `name` over the time of `to` with its 95 % interval: below 1, `name` is faster.

        From the rounds' log ratios of median trials, as `compare.pairs` has it. It says how well this process's run
        knows the ratio; another process may find another one, by what memory layout and compilation make of it. None
        where nothing was measured. Raises `ValueError` for a name that was not compared.
        """
        self._check(name)
        self._check(to)
        return paired_ratio(self.log_times[name], self.log_times[to]) if self.results else None

    def assert_faster(self, name: str, *, than: str, by: float = 1.0) -> None:
        """Fail unless `name` is at least `by` times as fast as `than`, with the whole 95 % interval.

        It is the interval's unfavourable end that has to reach `by`, so that a claim of unchanged code holds in nearly
        every run or in nearly none. Raises `AssertionError`; `ValueError` for unknown names and impossible factors.
        """
        __tracebackhide__ = True
        if positive_number(by) is None:
            raise ValueError(f"by must be a positive number, not {shown(by)}")
        if name == than:
            raise ValueError(f"{name} cannot be faster than itself: name two implementations")
        ratio = self.ratio(name, to=than)
        if ratio is not None and self.binding and not ratio.high * by <= 1.0:
            raise AssertionError(self._not_faster(name, than, by, ratio))

    def pareto(self) -> tuple[str, ...]:
        """Return the names that no other beats: not slower, not larger and not less exact, and better in something.

        The axes are time, peak memory and error, those that are known of all. Times whose ratio's interval holds 1
        count as equal. Where nothing was measured, all names are returned.
        """
        return pareto_front(self.names, self._axes()) if self.results else self.names

    def table(self, *, to: str | None = None) -> str:
        """Return the comparison as text, times relative to `to` (by default the first); a star marks `pareto()`."""
        from pytest_gpuperf.report.side_by_side import ComparisonRow, comparison_table

        base = self.names[0] if to is None else to
        self._check(base)
        front = self.pareto() if self.results else ()
        rows = [
            ComparisonRow(
                name=name,
                record=self.results[name].record if self.results else None,
                ratio=None if name == base else self.ratio(name, to=base),
                error=self.errors[name],
                starred=name in front,
            )
            for name in self.names
        ]
        return comparison_table(rows, base)

    def _axes(self) -> list[Axis[str]]:
        axes: list[Axis[str]] = [self._compare_times]
        figures: tuple[Mapping[str, float | None], ...] = (
            {name: result.peak_memory_bytes for name, result in self.results.items()},
            self.errors,
        )
        return axes + [_axis(figure) for figure in figures if None not in figure.values()]

    def _compare_times(self, one: str, other: str) -> int:
        ratio = self.ratio(one, to=other)
        if one == other or ratio is None or ratio.low <= 1.0 <= ratio.high:
            return 0
        return -1 if ratio.high < 1.0 else 1

    def _not_faster(self, name: str, than: str, by: float, ratio: PairedRatio) -> str:
        from pytest_gpuperf.report import units

        wanted = "faster than" if by == 1.0 else f"{by:g} times as fast as"
        speeds = (1 / ratio.ratio, 1 / ratio.high, 1 / ratio.low if ratio.low > 0 else math.inf)
        reached = "{} times as fast [{}, {}]".format(*(units.factor(speed) for speed in speeds))
        means = [units.time(self.results[one].mean_us) for one in (name, than)]
        notes = [f"{one}: {note}" for one in (name, than) for note in self.results[one].notes]
        doubt = "; the rounds differ too much to tell" if speeds[2] >= by else ""
        return "\n".join(
            (
                f"{name} is not shown to be {wanted} {than}: it is {reached} (95 % interval of "
                f"{units.count(ratio.rounds, 'round')}), {means[0]} against {means[1]}{doubt}",
                *notes,
            )
        )

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise ValueError(f"no implementation {name!r} was compared; there are {', '.join(self.names)}")


def comparison_of(names: tuple[str, ...], errors: Sequence[float | None], together: Together | None) -> BenchComparison:
    """Put a comparison together; `together` is None in a session that does not measure."""
    by_name = dict(zip(names, errors, strict=True))
    if together is None:
        return BenchComparison(names=names, results={}, errors=by_name, log_times={})
    return BenchComparison(
        names=names,
        results=dict(zip(names, together.results, strict=True)),
        errors=by_name,
        log_times=dict(zip(names, together.log_times, strict=True)),
        binding=together.binding,
    )


def _axis(figures: Mapping[str, float | None]) -> Axis[str]:
    """Compare by a figure of which less is better; what is not a number is worse than any."""

    def worth(name: str) -> float:
        figure = figures[name]
        return math.inf if figure is None or math.isnan(figure) else figure

    return lambda one, other: (worth(one) > worth(other)) - (worth(one) < worth(other))
