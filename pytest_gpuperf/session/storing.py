"""What a session writes into the baseline, and what it leaves as it was."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version

import pytest

from pytest_gpuperf.compare.identity import incomparability
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.report.units import count
from pytest_gpuperf.session.context import Context
from pytest_gpuperf.session.findings import Finding
from pytest_gpuperf.settings import SessionSettings
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.errors import StoreError
from pytest_gpuperf.store.schema import Baseline, Entry, SessionInfo

GIT_TIMEOUT_SECONDS = 10


def storable_verdicts(settings: SessionSettings) -> tuple[str, ...]:
    """Return the verdicts whose entries a gate stores.

    Where an unchanged entry were to replace the very one that it was compared with, slowdowns under `min_effect` would
    add up, one session after another. Added to it, or stored in another baseline, it does no such harm.
    """
    replaces_its_own_measure = settings.extend_baseline is None and settings.stored_name == settings.baseline
    return ("new", "improved") if replaces_its_own_measure else ("new", "improved", "unchanged")


class Storing:
    """Decides what of a session goes into the baseline, and writes it."""

    def __init__(self, context: Context, info: SessionInfo) -> None:
        self._context = context
        self._settings = context.settings
        self._info = info
        self._refusals: dict[str, list[str]] = {}

    def store(self, findings: Mapping[str, Finding]) -> list[str]:
        """Write what may be stored; return the lines that say what was and was not.

        Raises `pytest.UsageError` where the baseline cannot be written.
        """
        name = self._settings.stored_name or self._settings.baseline
        entries = [self._entry(finding) for finding in findings.values() if self._may_store(finding)]
        if not entries:
            return [f"Nothing was stored in baseline {name}.", *self._refused()]
        try:
            baselines.update(
                self._context.storage, self._info.machine.key, name, lambda old: self._changed(old, entries)
            )
        except StoreError as error:
            raise pytest.UsageError(str(error)) from None
        how = "extended" if self._settings.extend_baseline is not None else "stored"
        return [f"{count(len(entries), 'benchmark')} {how} in baseline {name}.", *self._refused()]

    def _changed(self, old: Baseline | None, entries: list[Entry]) -> Baseline:
        change = baselines.replace_entries if self._settings.extend_baseline is None else baselines.extend_entries
        return change(old, entries, self._info)

    def _may_store(self, finding: Finding) -> bool:
        reason = self._refusal(finding)
        if reason:
            self._refusals.setdefault(reason, []).append(finding.outcome.benchmark.label)
        return not reason

    def _refusal(self, finding: Finding) -> str:
        if finding.problem:
            return "did not pass in every fresh process"
        if finding.failed_checks:
            return "did not pass its checks"
        if finding.drift:
            return f"its processes measured different workloads; seed what is drawn at random ({finding.drift})"
        if finding.outcome.hazards and not self._settings.force:
            return f"measured while {' and '.join(finding.outcome.hazards)}; --gpuperf-force stores it all the same"
        verdict = finding.outcome.decision.verdict
        if self._settings.extend_baseline is not None:
            entry = self._context.gate.entry(finding.outcome.benchmark)
            if entry is not None and (why := incomparability(entry.identity, finding.outcome.identity)):
                return f"not comparable with the entry it would extend ({why})"
        if not self._settings.gate:
            return ""
        return "" if verdict in storable_verdicts(self._settings) else f"{verdict}: the entry stays as it is"

    def _entry(self, finding: Finding) -> Entry:
        outcome = finding.outcome
        runs = outcome.runs if self._settings.extend_baseline is None else outcome.runs[: self._settings.runs]
        return Entry(benchmark=outcome.benchmark, identity=outcome.identity, runs=runs, group=outcome.group)

    def _refused(self) -> list[str]:
        return [f"Not stored ({reason}): {_listed(labels)}." for reason, labels in self._refusals.items()]


def _listed(labels: Sequence[str], shown: int = 3) -> str:
    more = f" and {len(labels) - shown} more" if len(labels) > shown else ""
    return ", ".join(labels[:shown]) + more


def session_info(config: pytest.Config, session_id: str, machine: Machine) -> SessionInfo:
    """Say when, where and from which commit a session measured."""
    return SessionInfo(
        id=session_id,
        # To the millisecond: records are found by the order of their times, and short sessions follow each other fast.
        started=datetime.now(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z",
        commit=_commit(config),
        machine=machine,
        command=shlex.join(["pytest", *(str(argument) for argument in config.invocation_params.args)]),
        version=_own_version(),
    )


def _commit(config: pytest.Config) -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=config.rootpath,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _own_version() -> str:
    try:
        return version("pytest-gpuperf")
    except PackageNotFoundError:
        return ""
