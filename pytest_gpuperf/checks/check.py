"""The one interface of a check: it looks at the evidence and says what it sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.finding import CheckFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check. `look` yields one phrase for each thing seen; silence means that there is nothing to say."""

    name: str
    look: Callable[[Evidence], Iterable[str]]
    why: str
    instead: str = ""
    """What to do, where that is more than to allow it."""
    is_limit: bool = False

    def findings(self, evidence: Evidence) -> Iterator[CheckFinding]:
        """Yield what the check finds; it may raise whatever the callable under test or torch raises."""
        for seen in self.look(evidence):
            yield CheckFinding(check=self.name, seen=seen, why=self.why, remedy=self._remedy(), is_limit=self.is_limit)

    def _remedy(self) -> str:
        if self.is_limit:
            return self.instead
        allowed = f'allow=["{self.name}"] in the perf marker allows it'
        return f"{self.instead}; {allowed}" if self.instead else allowed
