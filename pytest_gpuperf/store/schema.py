"""The records that are stored, and the history of their schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.plan import BenchmarkId, Identity
from pytest_gpuperf.measure.samples import RunRecord

BASELINE_FORMAT = "pytest-gpuperf baseline"
SESSION_FORMAT = "pytest-gpuperf session"

SCHEMA_VERSION = 1
"""Raised whenever a stored field is added, removed or changes its meaning. History:

1. First released schema: baselines and session records.
"""

UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each older version, what turns a file's content into that of the next version."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where and when runs were made; shared by all runs of one session."""

    id: str
    """Short and unique within its file; what `RunRecord.session` refers to."""
    started: str
    """ISO 8601, UTC: `2026-12-01T00:45:00.120Z`. The fraction is for the order of sessions, and may be absent."""
    commit: str = ""
    machine: Machine
    command: str = ""
    version: str = ""
    """Of pytest-gpuperf."""

    @property
    def second(self) -> str:
        """When it was to the second, for people: `2026-12-01T00:45:00`."""
        return self.started.removesuffix("Z").partition(".")[0]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One benchmark in a baseline, with the runs that new ones are compared with, oldest first."""

    benchmark: BenchmarkId
    identity: Identity
    runs: tuple[RunRecord, ...]
    group: str = ""


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one named baseline holds for one machine model; entries go by `BenchmarkId.key`, sessions by id."""

    schema: int = SCHEMA_VERSION
    machine_model: str
    sessions: dict[str, SessionInfo] = msgspec.field(default_factory=dict)
    entries: dict[str, Entry] = msgspec.field(default_factory=dict)


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything that one session measured and decided, raw trials included; written once, never changed."""

    schema: int = SCHEMA_VERSION
    info: SessionInfo
    outcomes: tuple[Outcome, ...]
    accounting: dict[str, int] = msgspec.field(default_factory=dict)
    """The counts of the summary line by their names."""
    settings: dict[str, str | int | float | bool | None] = msgspec.field(default_factory=dict)
    """What was set for the whole session, by setting name."""
