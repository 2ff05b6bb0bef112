"""The sum that shows that no benchmark was lost.

measured + failed + skipped + deselected + missing = baseline + new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.compare.verdict import VERDICTS, Verdict

COUNTS = ("measured", "failed", "skipped", "deselected", "missing", "baseline", "new")
_NAMED_IN_A_MISMATCH = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """How many benchmarks ended in which way; the counts of the first five are disjoint."""

    measured: int = 0
    failed: int = 0
    """Tests that failed on their own account, and so have no verdict."""
    skipped: int = 0
    deselected: int = 0
    missing: int = 0
    """In the baseline and selected, but not run."""
    baseline: int = 0
    new: int = 0
    """Benchmarks of this session that the baseline does not hold."""
    unbalanced: tuple[str, ...] = ()
    """Keys that were counted twice or not at all: an internal error."""

    @property
    def balanced(self) -> bool:
        """Whether every benchmark was counted exactly once."""
        return self._seen == self.baseline + self.new and not self.unbalanced

    @property
    def _seen(self) -> int:
        return self.measured + self.failed + self.skipped + self.deselected + self.missing

    @classmethod
    def from_counts(cls, counts: Mapping[str, int]) -> Accounting:
        """The accounting of a stored record; other names in it are left out."""
        known: dict[str, Any] = {name: counts.get(name, 0) for name in COUNTS}
        return cls(**known)

    def counts(self) -> dict[str, int]:
        """The counts by name, for a stored record."""
        return {name: getattr(self, name) for name in COUNTS}


def account(
    baseline: Collection[str],
    *,
    measured: Collection[str] = (),
    failed: Collection[str] = (),
    skipped: Collection[str] = (),
    deselected: Collection[str] = (),
    missing: Collection[str] = (),
) -> Accounting:
    """Count benchmarks, given by their keys. `baseline` holds the keys of the stored baseline (empty: none)."""
    parts = [set(part) for part in (measured, failed, skipped, deselected, missing)]
    seen = set().union(*parts)
    twice = {key for key in seen if sum(key in part for part in parts) > 1}
    lost = set(baseline) - seen
    return Accounting(
        measured=len(parts[0]),
        failed=len(parts[1]),
        skipped=len(parts[2]),
        deselected=len(parts[3]),
        missing=len(parts[4]),
        baseline=len(set(baseline)),
        new=len(seen - set(baseline)),
        unbalanced=tuple(sorted(twice | lost)),
    )


def accounting_lines(accounting: Accounting) -> list[str]:
    """Say the sum in one line; where it does not come out, add a line that says so as an internal error."""
    parts = [("measured", accounting.measured), ("failed", accounting.failed), ("skipped", accounting.skipped)]
    parts += [("deselected", accounting.deselected), ("missing", accounting.missing)]
    left = " + ".join(f"{number} {name}" for name, number in parts if number or name == "measured")
    sign = "=" if accounting.balanced else "≠"
    lines = [f"{left} {sign} {accounting.baseline} in the baseline + {accounting.new} new"]
    if not accounting.balanced:
        lines.append(_mismatch(accounting))
    return lines


def _mismatch(accounting: Accounting) -> str:
    named = ", ".join(accounting.unbalanced[:_NAMED_IN_A_MISMATCH])
    more = len(accounting.unbalanced) - _NAMED_IN_A_MISMATCH
    which = f": {named}{f' and {more} more' if more > 0 else ''}" if named else ""
    return (
        f"INTERNAL ERROR: benchmarks were counted twice or lost{which}. Verdicts of this session are not to be trusted."
    )


def count_verdicts(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """How often each verdict occurs, in the order of `VERDICTS`, without those that do not."""
    given = list(verdicts)
    return {verdict: given.count(verdict) for verdict in VERDICTS if verdict in given}


def verdict_line(verdicts: Iterable[Verdict]) -> str:
    """Say the verdicts' counts: `1 regressed, 10 unchanged`; `no verdicts` for none."""
    return ", ".join(f"{number} {verdict}" for verdict, number in count_verdicts(verdicts).items()) or "no verdicts"
