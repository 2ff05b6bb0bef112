"""The gate: what one benchmark's runs mean beside the stored baseline."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.identity import incomparability
from pytest_gpuperf.compare.moderation import suite_prior
from pytest_gpuperf.compare.screen import screen
from pytest_gpuperf.compare.verdict import Decision, Policy
from pytest_gpuperf.measure.plan import BenchmarkId, Identity
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.settings import BenchmarkSettings
from pytest_gpuperf.store.schema import Baseline, Entry


class Look(Enum):
    """What the session's own run says at first sight."""

    SETTLED = "settled"
    SUSPECT = "suspect"
    """Perhaps slower: to be confirmed before the test is reported."""
    UNDECIDED = "undecided"
    """Not suspect, but too noisy to rule a slowdown out, or perhaps faster: worth more runs if there is time."""


class Gate:
    """Judges benchmarks against one loaded baseline (None: there is none for this machine)."""

    def __init__(
        self, baseline: Baseline | None, *, name: str, collected: Sequence[str], other_models: Sequence[str]
    ) -> None:
        self.name = name
        self.baseline = baseline
        self.entries = {} if baseline is None else baseline.entries
        self._other_models = other_models
        self._prior = suite_prior([entry.runs for entry in self.entries.values()])
        self._gated = self._count_gated(collected)

    def entry(self, benchmark: BenchmarkId) -> Entry | None:
        """The benchmark's entry in the baseline."""
        return self.entries.get(benchmark.key)

    def stored_timer(self, benchmark: BenchmarkId) -> str | None:
        """The kind of timer that the baseline's entry was measured with: the first word of the timer's identity."""
        entry = self.entry(benchmark)
        return None if entry is None else entry.identity.timer.partition(",")[0].strip()

    def look(self, benchmark: BenchmarkId, identity: Identity, run: RunRecord, settings: BenchmarkSettings) -> Look:
        """Screen the session's own run."""
        entry = self.entry(benchmark)
        if entry is None or incomparability(entry.identity, identity) is not None:
            return Look.SETTLED
        policy = self._policy(settings)
        if len(entry.runs) < policy.min_runs:
            return Look.SETTLED
        screening = screen(entry.runs, run, policy, self._prior)
        if screening.suspect:
            return Look.SUSPECT
        return Look.UNDECIDED if screening.undecided else Look.SETTLED

    def decide(
        self, benchmark: BenchmarkId, identity: Identity, runs: Sequence[RunRecord], settings: BenchmarkSettings
    ) -> Decision:
        """Decide on all of a benchmark's runs."""
        entry = self.entry(benchmark)
        if entry is None:
            return self._without_entry(runs)
        difference = incomparability(entry.identity, identity)
        if difference is not None:
            return Decision(
                verdict="incomparable",
                reason=f"measured differently from the baseline ({difference}); "
                "accept the new way with --gpuperf-save-baseline",
                baseline_runs=len(entry.runs),
                new_runs=len(runs),
                new_mean_us=_mean_us(runs),
            )
        return decide(entry.runs, runs, self._policy(settings), self._prior)

    def _without_entry(self, runs: Sequence[RunRecord]) -> Decision:
        if self.baseline is None and self._other_models:
            return Decision(
                verdict="incomparable",
                reason=f"baseline {self.name!r} was measured on {', '.join(self._other_models)}, not on this machine; "
                "store one for it with --gpuperf-save-baseline",
                new_runs=len(runs),
                new_mean_us=_mean_us(runs),
            )
        return Decision(
            verdict="new",
            reason=f"not in baseline {self.name!r}; store it with --gpuperf-save-baseline",
            new_runs=len(runs),
            new_mean_us=_mean_us(runs),
        )

    def _policy(self, settings: BenchmarkSettings) -> Policy:
        return Policy(
            min_effect=settings.min_effect,
            detectable=settings.detectable,
            alpha=settings.alpha,
            gated=max(1, self._gated),
        )

    def _count_gated(self, collected: Sequence[str]) -> int:
        present = {BenchmarkId.of(node_id).node_id for node_id in collected}
        enough = Policy().min_runs
        return sum(entry.benchmark.node_id in present and len(entry.runs) >= enough for entry in self.entries.values())


def _mean_us(runs: Sequence[RunRecord]) -> float | None:
    return sum(run.mean_us for run in runs) / len(runs) if runs else None
