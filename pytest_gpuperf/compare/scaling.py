"""The exponent k of figure ~ size^k, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuperf.compare.numbers import mean
from pytest_gpuperf.compare.pairs import mean_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFit:
    """A straight line through log figures over log sizes; its slope is the exponent."""

    exponent: float
    low: float
    high: float
    """The 95 % interval of the exponent."""
    log_residual_sd: float
    """Standard deviation of the figures from the line, in logs (so about a share); 0 for two sizes."""
    sizes: int


@dataclass(frozen=True, slots=True)
class _Line:
    slope: float
    residual_sd: float
    slope_error: float
    dof: int


def fit_scaling(sizes: Sequence[float], rounds: Sequence[Sequence[float]]) -> ScalingFit:
    """Fit the exponent by least squares; `rounds` has the log figures of all sizes for every round, one or more.

    A size's figure is the centre of its rounds, as `mean_interval` finds it.

    Two things make the exponent uncertain: that the figures may not lie on a power law, which the residuals from the
    line tell (Student's t on two sizes fewer, so with two sizes not at all), and noise, which the scatter of the
    rounds' own exponents tells (not for one round, such as exact figures). The interval is the wider of the two.

    Raises `ValueError` for fewer than two distinct sizes, sizes that are not positive, or no round.
    """
    if len(set(sizes)) < 2 or min(sizes) <= 0 or not rounds:
        raise ValueError("an exponent needs two distinct positive sizes and a round")
    log_sizes = [math.log(size) for size in sizes]
    line = _line(log_sizes, [mean_interval(column)[0] for column in zip(*rounds, strict=True)])
    reach = max(_reach_by_residuals(line), _reach_by_rounds(log_sizes, rounds))
    return ScalingFit(
        exponent=line.slope,
        low=line.slope - reach,
        high=line.slope + reach,
        log_residual_sd=line.residual_sd,
        sizes=len(sizes),
    )


def _line(x: Sequence[float], y: Sequence[float]) -> _Line:
    """Fit y = a + slope x by least squares, with the slope's standard error from the residuals."""
    x_mean, y_mean = mean(x), mean(y)
    spread = math.fsum((v - x_mean) ** 2 for v in x)
    slope = math.fsum((v - x_mean) * (w - y_mean) for v, w in zip(x, y, strict=True)) / spread
    dof = len(x) - 2
    squares = math.fsum((w - y_mean - slope * (v - x_mean)) ** 2 for v, w in zip(x, y, strict=True))
    residual_sd = math.sqrt(squares / dof) if dof > 0 else 0.0
    return _Line(slope, residual_sd, residual_sd / math.sqrt(spread), dof)


def _reach_by_residuals(line: _Line) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(line.dof, 0.975)) * line.slope_error if line.dof > 0 else 0.0


def _reach_by_rounds(log_sizes: Sequence[float], rounds: Sequence[Sequence[float]]) -> float:
    if len(rounds) < 2:
        return 0.0
    return mean_interval([_line(log_sizes, logs).slope for logs in rounds])[1]
