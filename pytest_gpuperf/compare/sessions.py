"""The variance between sessions: other days and other machines of a kind, as far as the baseline has met them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_gpuperf.compare.numbers import mean, variance

FEWEST_SESSIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanSquares:
    """A one-way analysis of variance of a baseline's values by session (Searle, Casella and McCulloch 1992)."""

    between: float
    between_dof: float
    within: float
    within_dof: int
    effective_size: float
    """Runs a session, n0 = (N - sum n_i^2 / N) / (k - 1)."""
    concentration: float
    """Sum of squared shares of the sessions: 1/k where all have the same number of runs."""
    within_of_new: bool = False
    """Whether `within` is the new runs', as the baseline has but one run a session."""

    def with_between(self, between: float, dof: float) -> MeanSquares:
        """Return the same with another mean square between sessions."""
        return replace(self, between=between, between_dof=dof)


def session_mean_squares(values: Sequence[float], sessions: Sequence[str]) -> MeanSquares | None:
    """Split the baseline's variance into between and within sessions; None with fewer than three, or nothing within."""
    sizes = Counter(sessions)
    count, groups = len(values), len(sizes)
    if groups < FEWEST_SESSIONS or count <= groups:
        return None
    total = mean(values)
    means = {name: mean([v for v, s in zip(values, sessions, strict=True) if s == name]) for name in sizes}
    between = math.fsum(size * (means[name] - total) ** 2 for name, size in sizes.items())
    within = math.fsum((v - means[s]) ** 2 for v, s in zip(values, sessions, strict=True))
    squares = math.fsum(size * size for size in sizes.values())
    return MeanSquares(
        between=between / (groups - 1),
        between_dof=groups - 1,
        within=within / (count - groups),
        within_dof=count - groups,
        effective_size=(count - squares / count) / (groups - 1),
        concentration=squares / count**2,
    )


def lone_run_mean_squares(
    values: Sequence[float], sessions: Sequence[str], new: Sequence[float], new_sessions: Sequence[str]
) -> MeanSquares | None:
    """Split the variance of a baseline that has one run of each session; what is within them, the new runs tell.

    None with fewer than three sessions, more than one run of any, or new runs of several sessions or one run only.
    """
    count = len(values)
    if count < FEWEST_SESSIONS or len(set(sessions)) < count or len(set(new_sessions)) != 1 or len(new) < 2:
        return None
    return MeanSquares(
        between=variance(values),
        between_dof=count - 1,
        within=variance(new),
        within_dof=len(new) - 1,
        effective_size=1.0,
        concentration=1 / count,
        within_of_new=True,
    )
