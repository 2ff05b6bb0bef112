"""What a session found out about one benchmark: the measurement, the decision, and what it was compared with."""

from __future__ import annotations

import msgspec

from pytest_gpuperf.checks.finding import CheckFinding
from pytest_gpuperf.compare.verdict import Decision, Policy
from pytest_gpuperf.measure.plan import BenchmarkId, Identity
from pytest_gpuperf.measure.samples import RunRecord, Trials


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One benchmark's runs in this session and the decision on them."""

    benchmark: BenchmarkId
    identity: Identity
    runs: tuple[RunRecord, ...]
    """This session's runs, the plugin's own process first."""
    trials: tuple[Trials, ...] = ()
    """Raw samples of the same runs, where they were kept."""
    decision: Decision
    policy: Policy | None = None
    """The levels that the decision was held to, this benchmark's own settings included; None where not kept."""
    hazards: tuple[str, ...] = ()
    """What slowed everything down while it was measured (a debugger, a profiler), so that it is not to be stored."""
    checks: tuple[CheckFinding, ...] = ()
    """Reasons to doubt the benchmark itself, found by the session's own process."""
    group: str = ""
    ceiling_share: float | None = None
    """Achieved rate over the ceiling measured on this machine (1 = speed of light); None where unknown."""
    bound: str = ""
    """What the ceiling is of: `memory` or `compute`; empty where unknown."""
