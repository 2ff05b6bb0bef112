"""The runs that a session takes at its end: of both trees, of suspects, of what is unclear, and for the baseline."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from pytest_gpuperf.report.units import count
from pytest_gpuperf.session.against import compare_trees, note_on_runs, revision_gate
from pytest_gpuperf.session.context import Context
from pytest_gpuperf.session.findings import Finding, Look
from pytest_gpuperf.session.ledger import Ledger
from pytest_gpuperf.session.rounds import timers_of, with_runs
from pytest_gpuperf.session.storing import storable_verdicts


class LastRuns:
    """Adds fresh runs to the ledger's findings, where they are worth it."""

    def __init__(self, context: Context, ledger: Ledger) -> None:
        self._context = context
        self._settings = context.settings
        self._ledger = ledger
        self._notes: list[str] = []

    def take(self) -> list[str]:
        """Take the runs, and return what is to be told of them."""
        if self._settings.against is not None:
            self._compare_with_revision()
        elif self._settings.gate:
            self._confirm_suspects()
            self._settle_the_rest()
        if self._settings.stored_name is not None:
            self._take_runs_to_store()
        return self._notes

    def _compare_with_revision(self) -> None:
        """Measure both trees in turn; this tree's fresh runs replace the session's own, which was not in that turn."""
        node_ids = list(dict.fromkeys(self._ledger.node_ids.values()))
        own_seconds = {node_id: self._ledger.durations_s.get(node_id, 0.0) for node_id in node_ids}
        both = compare_trees(self._context, node_ids, own_seconds, timers_of(self._ledger.findings.values()))
        for key, finding in self._ledger.findings.items():
            alone = msgspec.structs.replace(finding.outcome, runs=(), trials=())
            fresh = msgspec.structs.replace(finding, outcome=alone)
            self._ledger.findings[key] = with_runs(fresh, self._ledger.node_ids[key], both.new)
        self._context.gate = revision_gate(self._context, both, self._ledger.node_ids)
        if node_ids and (note := note_on_runs(self._settings.runs)):
            self._notes.append(note)

    def _with_look(self, *looks: Look) -> dict[str, Finding]:
        """The findings of these looks that have had no more than the session's own run yet."""
        return {
            key: finding
            for key, finding in self._ledger.findings.items()
            if finding.look in looks and len(finding.outcome.runs) == 1 and not finding.problem
        }

    def _confirm_suspects(self) -> None:
        urgent = [Look.SUSPECT]
        if "inconclusive" in self._settings.failing_verdicts:
            urgent.append(Look.UNDECIDED)
        self._take(self._with_look(*urgent), self._settings.confirm_runs, why="confirming suspects")

    def _settle_the_rest(self) -> None:
        """Spend the stated time on benchmarks that one run cannot settle, though they are not suspect."""
        worth = self._with_look(Look.FASTER, Look.UNDECIDED)
        rounds, seconds = self._settings.confirm_runs, self._settings.confirm_time
        until = time.monotonic() + seconds
        for done in range(rounds if worth else 0):
            if seconds <= 0 or time.monotonic() > until:
                self._notes.append(
                    f"{count(len(worth), 'benchmark')} that one run could not settle got {done} of {rounds} more runs "
                    f"within --gpuperf-confirm-time={seconds:g} s."
                )
                return
            self._take(worth, 1, why=f"settling what is unclear ({done + 1} of {rounds})")

    def _take_runs_to_store(self) -> None:
        """Bring every benchmark that may be stored to the baseline's number of runs."""
        wanted = {key: finding for key, finding in self._ledger.findings.items() if self._may_be_stored(finding)}
        lacking = [self._settings.runs - len(finding.outcome.runs) for finding in wanted.values()]
        # All in one batch, so that a stored run has kept the company that a session's own run keeps.
        self._take(wanted, max(lacking, default=0), why="measuring the baseline")

    def _may_be_stored(self, finding: Finding) -> bool:
        if finding.problem or finding.failed_checks:
            return False
        if not self._settings.gate:
            return True
        return finding.look is Look.FASTER or finding.outcome.decision.verdict in storable_verdicts(self._settings)

    def _take(self, wanted: Mapping[str, Finding], rounds: int, *, why: str) -> None:
        node_ids = list(dict.fromkeys(self._ledger.node_ids[key] for key in wanted))
        if not node_ids or rounds <= 0:
            return
        own_seconds = {node_id: self._ledger.durations_s.get(node_id, 0.0) for node_id in node_ids}
        timers = timers_of(self._ledger.findings.values())
        taken = self._context.rounds.run(node_ids, rounds, why=why, timers=timers, own_seconds=own_seconds)
        for key in wanted:
            finding = self._ledger.findings[key]
            self._ledger.findings[key] = with_runs(finding, self._ledger.node_ids[key], taken)
