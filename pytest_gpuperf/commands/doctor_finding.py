"""One thing that the doctor looked at."""

from __future__ import annotations

from typing import Literal

import msgspec

Weight = Literal["fine", "note", "matters"]


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was seen, whether it matters to benchmarks, and what to do about it."""

    about: str
    weight: Weight
    seen: str
    remedy: str = ""


def fine(about: str, seen: str) -> DoctorFinding:
    """Return a finding that nothing is to be done about."""
    return DoctorFinding(about=about, weight="fine", seen=seen)


def note(about: str, seen: str, remedy: str) -> DoctorFinding:
    """Return a finding that costs some precision, or cannot be helped."""
    return DoctorFinding(about=about, weight="note", seen=seen, remedy=remedy)


def matters(about: str, seen: str, remedy: str) -> DoctorFinding:
    """Return a finding that makes verdicts doubtful or blind."""
    return DoctorFinding(about=about, weight="matters", seen=seen, remedy=remedy)
