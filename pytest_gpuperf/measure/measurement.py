"""What measuring one benchmark in this process gave."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_gpuperf.measure.plan import Identity
from pytest_gpuperf.measure.samples import RunRecord, Trials


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One benchmark measured in this process: the summary, the raw trials, and what must agree to compare it."""

    record: RunRecord
    trials: Trials
    identity: Identity
    hazards: tuple[str, ...] = ()
    """Why this must not be stored unless forced (a debugger, blocking launches, …); also among the record's notes."""
