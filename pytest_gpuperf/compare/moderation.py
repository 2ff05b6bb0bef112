"""Moderated variances: what the whole suite says about how noisy a benchmark can be (Smyth 2004, "limma").

Ten runs estimate a standard deviation to about a quarter; by luck alone some benchmark of a large suite looks four
times as steady as it is, and that is the one that raises a false alarm. The suite's variances are taken as draws from
s0^2 chi^2_d0^-1 d0; the posterior variance (d0 s0^2 + d s^2) / (d0 + d) has d0 + d degrees of freedom. It is used
only where it is larger than the benchmark's own: a noisy benchmark is never made to look quieter than it was seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_gpuperf.compare.numbers import mean, median, variance, without_outlier
from pytest_gpuperf.compare.sessions import session_mean_squares
from pytest_gpuperf.compare.values import run_values
from pytest_gpuperf.measure.samples import RunRecord

SMALLEST_SUITE = 10
"""Fewer benchmarks say too little about their common spread."""
MOST_PRIOR_DOF = 100.0
SMALLEST_VARIANCE = 1e-8
"""Of log time: a standard deviation of 0.01 % between runs, below which nothing that is timed repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A prior of a variance: its typical value, and how many degrees of freedom that knowledge is worth."""

    variance: float
    dof: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What a suite knows of its benchmarks: variances between runs, and (over sessions) between sessions."""

    runs: Scale
    sessions: Scale | None = None
    """Of the mean square between sessions divided by that within; None with fewer than three sessions."""


def suite_prior(baselines: Iterable[Sequence[RunRecord]]) -> Prior | None:
    """Estimate the prior from the suite's baselines; None with fewer than ten benchmarks of at least two runs."""
    suite = [list(baseline) for baseline in baselines if len(baseline) >= 2]
    values = [run_values(runs) for runs in suite]
    runs = fit_scale([(variance(without_outlier(x)), len(x) - 1) for x in values])
    if runs is None:
        return None
    squares = [session_mean_squares(x, [run.session for run in rs]) for x, rs in zip(values, suite, strict=True)]
    ratios = [(s.between / max(s.within, SMALLEST_VARIANCE), s.between_dof) for s in squares if s is not None]
    return Prior(runs=runs, sessions=fit_scale(ratios))


def fit_scale(variances: Sequence[tuple[float, float]]) -> Scale | None:
    """Fit s0^2 and d0 to (variance, degrees of freedom) pairs by the moments of their logs (Smyth 2004, section 6.2).

    None with fewer than ten pairs. Variances of zero (a timer's tick) are raised to a hundred-thousandth of the median.
    """
    from scipy.special import digamma, polygamma

    if len(variances) < SMALLEST_SUITE:
        return None
    floor = max(median([v for v, _ in variances]) * 1e-5, SMALLEST_VARIANCE)
    logs = [math.log(max(v, floor)) - float(digamma(d / 2)) + math.log(d / 2) for v, d in variances]
    centre = mean(logs)
    excess = variance(logs) - mean([float(polygamma(1, d / 2)) for _, d in variances])
    dof = min(MOST_PRIOR_DOF, 2 * inverse_trigamma(excess)) if excess > 0 else MOST_PRIOR_DOF
    return Scale(variance=math.exp(centre + float(digamma(dof / 2)) - math.log(dof / 2)), dof=dof)


def inverse_trigamma(value: float) -> float:
    """Solve trigamma(y) = value for y > 0 by Newton's method on 1 / trigamma (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    y = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, y))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, y))
        y += step
        if -step / y < 1e-9:
            break
    return y


def moderate(own: float, dof: float, scale: Scale | None) -> tuple[float, float]:
    """Return the variance to use and its degrees of freedom; never below `own`."""
    if scale is None:
        return own, dof
    posterior = (scale.dof * scale.variance + dof * own) / (scale.dof + dof)
    return (posterior, scale.dof + dof) if posterior > own else (own, dof)
