"""The screen: is this session's own run worth confirming in fresh processes?

Stopping here can only accept, so the final test's error rate is the gate's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from pytest_gpuperf.compare.difference import Difference, difference
from pytest_gpuperf.compare.exact import excess
from pytest_gpuperf.compare.moderation import Prior
from pytest_gpuperf.compare.numbers import ratio_of
from pytest_gpuperf.compare.power import settles
from pytest_gpuperf.compare.values import adjusted_arms
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.samples import RunRecord

FASTER_LEVEL = 0.01
"""Faster never fails, so it is confirmed (for `improved`) only where one run is already convincing."""


class Screening(msgspec.Struct, frozen=True, kw_only=True):
    """What one run says beside its baseline. p is of the prediction t; the ratio is clock-adjusted."""

    suspect: bool
    """Slower at the screen's level, or beyond an exact metric's tolerance: to be confirmed."""
    faster: bool = False
    """Faster beyond `min_effect`, convincingly: to be confirmed, so that it can be called improved."""
    undecided: bool = False
    """Neither, but it cannot rule out `detectable`, and confirming runs probably would."""
    p: float | None = None
    ratio: float | None = None

    @property
    def advances(self) -> bool:
        """Whether confirming runs are due: suspects and the faster always, the undecided as the budget allows."""
        return self.suspect or self.faster


def screen(
    baseline: Sequence[RunRecord], run: RunRecord, policy: Policy, prior: Prior | None = None, *, shift: float = 0.0
) -> Screening:
    """Screen the session's own run against the baseline by t = (x - mean B) / (s_B sqrt(1 + 1 / n_B)).

    `shift` is a log shift that is taken out of the run's time first.
    """
    exact = excess(baseline, [run], policy) is not None
    if len(baseline) < policy.min_runs:
        return Screening(suspect=exact)
    seen = difference(adjusted_arms(baseline, [run], shift, policy.clock_error), prior, interleaved=policy.interleaved)
    if seen is None:
        return Screening(suspect=exact)
    p = seen.p_above(0.0)
    suspect = exact or p < policy.screen_alpha
    faster = not suspect and seen.p_below(-math.log1p(policy.min_effect)) < FASTER_LEVEL
    return Screening(
        suspect=suspect,
        faster=faster,
        undecided=not suspect and not faster and _undecided(seen, len(baseline), policy),
        p=p,
        ratio=ratio_of(seen.estimate),
    )


def _undecided(seen: Difference, baseline_count: int, policy: Policy) -> bool:
    open_ended = seen.estimate + seen.bound(0.05) >= math.log1p(policy.detectable)
    return open_ended and settles(seen, 1 + policy.confirm_runs, baseline_count, policy)
