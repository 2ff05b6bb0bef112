"""The difference of two arms' mean log times, with its variance and degrees of freedom (Welch 1947)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_gpuperf.compare.moderation import SMALLEST_VARIANCE, Prior, moderate
from pytest_gpuperf.compare.numbers import mean, variance, without_outlier
from pytest_gpuperf.compare.sessions import MeanSquares, lone_run_mean_squares, session_mean_squares
from pytest_gpuperf.compare.values import Arms

CLEARLY_LARGER = 0.01
"""Level of the F test that lets the new runs keep their own, larger variance. At 5 % it costs a third of the misses of
small slowdowns and guards against nothing that the rank test does not."""
SESSIONS_DIFFER = 0.25
"""Level at which a few sessions are taken to differ (Bancroft 1964: pool unless the pretest at 0.25 objects)."""

Part = tuple[float, float]
"""A term of a variance, and its degrees of freedom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """New minus baseline, in log time. The variance is `fixed` + `new_run` / n for n new runs."""

    estimate: float
    fixed: float
    new_run: float
    new_count: int
    dof: float
    clock: float = 0.0
    """The part of `fixed` that comes from adjusting for the clock."""
    sessions: float = 0.0
    """The part of `fixed` that comes from sessions that differ."""

    @property
    def spread(self) -> float:
        """Standard deviation between new runs, in log time (so about a share of the time)."""
        return math.sqrt(self.new_run)

    def standard_error(self, new_count: int | None = None) -> float:
        """Return the standard error of the estimate, as it is or as it would be with `new_count` new runs."""
        return math.sqrt(self.fixed + self.new_run / (self.new_count if new_count is None else new_count))

    def p_above(self, bound: float) -> float:
        """Return the one-sided p-value against "the true difference is at most `bound`"."""
        from scipy.special import stdtr

        return float(stdtr(self.dof, (bound - self.estimate) / self.standard_error()))

    def p_below(self, bound: float) -> float:
        """Return the one-sided p-value against "the true difference is at least `bound`"."""
        from scipy.special import stdtr

        return float(stdtr(self.dof, (self.estimate - bound) / self.standard_error()))

    def critical(self, level: float) -> float:
        """Return Student's t that is exceeded with probability `level`."""
        from scipy.special import stdtrit

        return float(stdtrit(self.dof, 1.0 - level))

    def bound(self, level: float) -> float:
        """Return how far from the estimate its one-sided bound at `level` lies."""
        return self.critical(level) * self.standard_error()


def difference(arms: Arms, prior: Prior | None, *, interleaved: bool = False) -> Difference | None:
    """Compare the arms; None where nothing says how much runs vary (one run a side and no suite to ask)."""
    old, new = without_outlier(arms.baseline), without_outlier(arms.new)
    squares = None if interleaved else _sessions_that_differ(arms, new, prior)
    smallest = max(SMALLEST_VARIANCE, arms.tick_variance)
    if squares is None:
        baseline = (variance(old), float(len(old) - 1))
    else:
        baseline = (squares.within, 0.0 if squares.within_of_new else float(squares.within_dof))
    spread = _run_variances(baseline, (variance(new), float(len(new) - 1)), prior, smallest)
    if spread is None:
        return None
    (of_baseline, _), (of_new, _) = spread
    parts = _mean_parts(spread, len(old), len(new))
    of_clock = [(arms.clock_variance, max(1.0, len(old) - 1.0))] if arms.clock_variance > 0 else []
    of_sessions = _session_parts(squares, arms)
    extra = [*of_clock, *of_sessions]
    return Difference(
        estimate=mean(new) - mean(old),
        fixed=of_baseline / len(old) + math.fsum(v for v, _ in extra),
        new_run=of_new,
        new_count=len(new),
        dof=satterthwaite([*parts, *extra]),
        clock=math.fsum(v for v, _ in of_clock),
        sessions=math.fsum(v for v, _ in of_sessions),
    )


def satterthwaite(parts: Sequence[Part]) -> float:
    """Return the degrees of freedom of a sum of independent variance estimates (Satterthwaite 1946); at least 1."""
    total = math.fsum(v for v, _ in parts)
    return max(1.0, total * total / math.fsum(v * v / dof for v, dof in parts))


def _run_variances(baseline: Part, new: Part, prior: Prior | None, smallest: float) -> tuple[Part, Part] | None:
    """Return (variance, degrees of freedom) of one run of each arm; the same object twice where they share it.

    The arms share one variance, as unchanged code would, unless the new runs' is clearly larger: a handful of
    runs that happen to agree must not look certain.
    """
    scale = None if prior is None else prior.runs
    (own_baseline, baseline_dof), (own_new, new_dof) = baseline, new
    moderated = _moderated(own_baseline, baseline_dof, prior, smallest)
    if moderated is not None and new_dof >= 1 and _clearly_larger(own_new, new_dof, moderated):
        return moderated, moderate(max(own_new, smallest), new_dof, scale)
    dof = baseline_dof + new_dof
    pooled = (baseline_dof * own_baseline + new_dof * own_new) / dof if dof > 0 else 0.0
    shared = _moderated(pooled, dof, prior, smallest)
    return None if shared is None else (shared, shared)


def _moderated(own: float, dof: float, prior: Prior | None, smallest: float) -> Part | None:
    if dof < 1:
        return None if prior is None else (max(prior.runs.variance, smallest), prior.runs.dof)
    return moderate(max(own, smallest), dof, None if prior is None else prior.runs)


def _clearly_larger(own_new: float, new_dof: float, baseline: Part) -> bool:
    from scipy.special import fdtrc

    of_baseline, baseline_dof = baseline
    return bool(fdtrc(new_dof, baseline_dof, own_new / of_baseline) <= CLEARLY_LARGER)


def _mean_parts(spread: tuple[Part, Part], baseline_count: int, new_count: int) -> list[Part]:
    (of_baseline, baseline_dof), (of_new, new_dof) = spread
    if spread[0] is spread[1]:
        return [(of_baseline * (1 / baseline_count + 1 / new_count), baseline_dof)]
    return [(of_baseline / baseline_count, baseline_dof), (of_new / new_count, new_dof)]


def _sessions_that_differ(arms: Arms, new: Sequence[float], prior: Prior | None) -> MeanSquares | None:
    """Return the baseline's mean squares where its sessions differ, as far as it or the suite can tell."""
    from scipy.special import fdtrc

    squares = session_mean_squares(arms.baseline, arms.baseline_sessions) or lone_run_mean_squares(
        arms.baseline, arms.baseline_sessions, new, arms.new_sessions
    )
    if squares is None or set(arms.baseline_sessions) & set(arms.new_sessions):
        return None
    within = max(squares.within, SMALLEST_VARIANCE)
    if prior is not None and prior.sessions is not None:
        ratio, dof = moderate(squares.between / within, squares.between_dof, prior.sessions)
        return squares.with_between(ratio * within, dof) if ratio > 1 else None
    p = float(fdtrc(squares.between_dof, squares.within_dof, squares.between / within))
    return squares if p <= SESSIONS_DIFFER else None


def _session_parts(squares: MeanSquares | None, arms: Arms) -> list[Part]:
    """Return the session component's term: the new runs' session and the baseline's are all draws from it."""
    if squares is None:
        return []
    new = len(set(arms.new_sessions))
    between = max(0.0, squares.between - squares.within) / squares.effective_size
    return [(between * (1 / new + squares.concentration), squares.between_dof)] if between > 0 else []
