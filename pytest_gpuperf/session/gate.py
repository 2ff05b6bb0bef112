"""The gate: what one benchmark's runs mean beside the stored baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.identity import incomparability
from pytest_gpuperf.compare.moderation import suite_prior
from pytest_gpuperf.compare.screen import screen
from pytest_gpuperf.compare.shift import Comparison, Shift, settle
from pytest_gpuperf.compare.verdict import Decision, Policy
from pytest_gpuperf.measure.plan import BenchmarkId, Identity, timer_kind
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.session.findings import Finding, Look
from pytest_gpuperf.settings import BenchmarkSettings
from pytest_gpuperf.store.schema import Baseline, Entry

PACE: dict[str, Any] = {"clock_name": "the CPU's pace", "clock_error": 0.5}
"""A CPU's pace is a loop's, not a clock: what slows it by a tenth (a neighbour in the caches, say) may slow other code
by twice that, or not at all. Where the pace moved little that hardly matters; where it moved, nothing small is sure."""


class Gate:
    """Judges benchmarks against one loaded baseline (None: there is none for this machine)."""

    def __init__(
        self,
        baseline: Baseline | None,
        *,
        name: str,
        collected: Callable[[], Sequence[str]],
        other_models: Sequence[str],
        confirm_runs: int,
        interleaved: bool = False,
        paced: bool = False,
        unusable: Mapping[str, str] | None = None,
        save_option: str = "--gpuperf-save-baseline",
    ) -> None:
        """`name` says what is compared with, `save_option` how to store it; `unusable`, by key, why a benchmark
        has no entry though it exists there.

        `paced` means that the clock is a CPU's pace. `interleaved` means that the baseline's runs and the new ones were
        taken in turn, in one session.
        """
        self.name = name
        self._save_option = save_option
        self._interleaved = interleaved
        self._clock = PACE if paced else {}
        self._unusable = unusable or {}
        self.baseline = baseline
        self.entries: Mapping[str, Entry] = {} if baseline is None else baseline.entries
        self._other_models = other_models
        self._confirm_runs = confirm_runs
        self._prior = suite_prior([entry.runs for entry in self.entries.values()])
        self._collected = collected
        self._gated_by_collected: dict[tuple[str, ...], int] = {}

    def entry(self, benchmark: BenchmarkId) -> Entry | None:
        """The benchmark's entry in the baseline."""
        return self.entries.get(benchmark.key)

    def stored_timer(self, benchmark: BenchmarkId) -> str | None:
        """The kind of timer that the baseline's entry was measured with."""
        entry = self.entry(benchmark)
        return None if entry is None else timer_kind(entry.identity)

    def look(self, benchmark: BenchmarkId, identity: Identity, run: RunRecord, settings: BenchmarkSettings) -> Look:
        """Screen the session's own run."""
        entry = self.entry(benchmark)
        if entry is None or incomparability(entry.identity, identity) is not None:
            return Look.SETTLED
        seen = screen(entry.runs, run, self.policy(settings), self._prior)
        if seen.suspect:
            return Look.SUSPECT
        if seen.faster:
            return Look.FASTER
        return Look.UNDECIDED if seen.undecided else Look.SETTLED

    def decide(
        self, benchmark: BenchmarkId, identity: Identity, runs: Sequence[RunRecord], settings: BenchmarkSettings
    ) -> Decision:
        """Decide on all runs of one benchmark, by itself."""
        compared = self._comparison(benchmark, identity, runs, settings)
        if isinstance(compared, Decision):
            return compared
        return decide(compared.baseline, compared.runs, compared.policy, self._prior)

    def decide_all(self, findings: Mapping[str, Finding]) -> tuple[dict[str, Decision], Shift | None]:
        """Decide on all benchmarks of the session together, so that what they share is told from what each did."""
        compared = {
            key: self._comparison(f.outcome.benchmark, f.outcome.identity, f.outcome.runs, f.settings)
            for key, f in findings.items()
        }
        settled = settle({key: c for key, c in compared.items() if isinstance(c, Comparison)}, self._prior)
        outright = {key: c for key, c in compared.items() if isinstance(c, Decision)}
        return {**outright, **settled.decisions}, settled.shift

    def _comparison(
        self, benchmark: BenchmarkId, identity: Identity, runs: Sequence[RunRecord], settings: BenchmarkSettings
    ) -> Comparison | Decision:
        """Return what is to be compared, or the verdict where nothing can be."""
        entry = self.entry(benchmark)
        if entry is None:
            return self._without_entry(benchmark, runs)
        difference = incomparability(entry.identity, identity)
        if difference is not None:
            return Decision(
                verdict="incomparable",
                reason=f"measured differently from the baseline ({difference}); "
                f"accept the new way with {self._save_option}{_or_seed(entry.identity, identity)}",
                baseline_runs=len(entry.runs),
                new_runs=len(runs),
                new_mean_us=_mean_us(runs),
            )
        return Comparison(baseline=entry.runs, runs=runs, policy=self.policy(settings))

    def _without_entry(self, benchmark: BenchmarkId, runs: Sequence[RunRecord]) -> Decision:
        if benchmark.key in self._unusable:
            return Decision(
                verdict="incomparable",
                reason=f"not measured in {self.name}: {self._unusable[benchmark.key]}",
                new_runs=len(runs),
                new_mean_us=_mean_us(runs),
            )
        if self.baseline is None and self._other_models:
            return Decision(
                verdict="incomparable",
                reason=f"{self.name} was measured on {', '.join(self._other_models)}, not on this machine; "
                f"store one for it with {self._save_option}",
                new_runs=len(runs),
                new_mean_us=_mean_us(runs),
            )
        return Decision(
            verdict="new",
            reason=f"not in {self.name}" + ("" if self._interleaved else f"; store it with {self._save_option}"),
            new_runs=len(runs),
            new_mean_us=_mean_us(runs),
        )

    def policy(self, settings: BenchmarkSettings) -> Policy:
        """Return the levels that a benchmark with these settings is held to."""
        return Policy(
            min_effect=settings.min_effect,
            detectable=settings.detectable,
            alpha=settings.alpha,
            gated=max(1, self._gated()),
            confirm_runs=self._confirm_runs,
            interleaved=self._interleaved,
            **self._clock,
        )

    def _gated(self) -> int:
        """How many of the tests to run have an entry that gates them."""
        node_ids = tuple(self._collected())
        if node_ids not in self._gated_by_collected:
            self._gated_by_collected = {node_ids: self._count_gated(node_ids)}
        return self._gated_by_collected[node_ids]

    def _count_gated(self, collected: Sequence[str]) -> int:
        present = {BenchmarkId.of(node_id).node_id for node_id in collected}
        enough = Policy().min_runs
        return sum(entry.benchmark.node_id in present and len(entry.runs) >= enough for entry in self.entries.values())


def _or_seed(baseline: Identity, new: Identity) -> str:
    """Another remedy, where arguments differ: those drawn at random would differ again from whatever is stored."""
    same = baseline.workload.arguments == new.workload.arguments
    return "" if same else ", or seed these arguments if they are drawn at random"


def _mean_us(runs: Sequence[RunRecord]) -> float | None:
    return sum(run.mean_us for run in runs) / len(runs) if runs else None
