"""The file of --gpuperf-json."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import msgspec
import pytest

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.samples import Trials
from pytest_gpuperf.report.json import session_json
from pytest_gpuperf.store.codec import decode_session
from pytest_gpuperf.store.errors import UnstorableValueError
from pytest_gpuperf.store.schema import SCHEMA_VERSION, SessionInfo, SessionRecord


def _record(*outcomes: Outcome) -> SessionRecord:
    info = SessionInfo(id="ab12", started="2026-12-01T00:00:00Z", machine=Machine(model="NVIDIA H200", kind="cuda"))
    return SessionRecord(info=info, outcomes=outcomes, accounting={"measured": 1}, settings={"alpha": 0.001})


def test_it_holds_all_there_is(regressed: Outcome) -> None:
    trials = Trials(times_us=(1.0, 2.5), batch_indices=(0, 0))
    record = _record(msgspec.structs.replace(regressed, trials=(trials,)))
    content = json.loads(session_json(record))
    assert content["schema"] == SCHEMA_VERSION
    assert content["info"]["machine"]["model"] == "NVIDIA H200"
    assert content["settings"] == {"alpha": 0.001}
    assert content["accounting"] == {"measured": 1}
    outcome = content["outcomes"][0]
    assert outcome["decision"]["verdict"] == "regressed"
    assert outcome["trials"][0]["times_us"] == [1, 2.5]
    assert len(outcome["runs"]) == 8


def test_the_command_reads_it_back(regressed: Outcome, make_outcome: Callable[..., Outcome]) -> None:
    record = _record(regressed, make_outcome(verdict="missing", runs=0))
    restored = decode_session(session_json(record).encode(), "here")
    assert [o.benchmark for o in restored.outcomes] == [o.benchmark for o in record.outcomes]
    assert restored.outcomes[0].decision.ratio == 1.0483


def test_no_number_is_ever_not_a_number(make_outcome: Callable[..., Outcome]) -> None:
    with pytest.raises(UnstorableValueError, match="--gpuperf-json"):
        session_json(_record(make_outcome(ratio=math.nan)))
