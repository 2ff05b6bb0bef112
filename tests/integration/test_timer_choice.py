"""One kind of timer for what is compared: the baseline's, else the session's own, in all its processes."""

from __future__ import annotations

import json

import pytest

from pytest_gpuperf.store.codec import decode_session

OTHER = "test_suite.py::test_other"
SHORT = "test_suite.py::test_op[op1]"


@pytest.fixture
def choosing(new_suite):
    """The suite on a device whose `auto` takes graphs for what is shorter than 10 us, if it can."""
    new_suite.write("script.json", json.dumps({"below": 10.0, "capturable": True}))
    new_suite.add(
        "conftest.py",
        '''

script = json.loads((HERE / "script.json").read_text())
backend.graph_below_us, backend.capturable = script["below"], script["capturable"]


@pytest.fixture(autouse=True)
def fresh_processes_choose_otherwise(request, monkeypatch):
    """As near a limit: what one process takes for short, another one does not."""
    fresh = request.config.getoption("gpuperf_fresh_worker") or request.config.getoption("gpuperf_fork_server")
    if fresh and script.get("fresh_below") is not None:
        backend.graph_below_us = script["fresh_below"]
    if fresh and script.get("captured_by") is not None:
        backend.noise()
        backend.capturable = backend.run <= script["captured_by"]
''',
    )
    new_suite.times(op1=5.0)
    return new_suite


def script(suite, **changes):
    suite.write("script.json", json.dumps({"below": 10.0, "capturable": True, **changes}))


def saved(suite, *arguments):
    result = suite.run("--gpuperf-save-baseline", "--gpuperf-runs=3", "-k", "op1 or other", *arguments)
    assert result.ret == 0
    return suite.entries()


@pytest.mark.parametrize("fresh_start", ["auto", "interpreter"])
def test_the_sessions_own_run_decides_for_its_fresh_processes(choosing, fresh_start) -> None:
    script(choosing, fresh_below=0.001)
    entries = saved(choosing, f"--gpuperf-fresh-start={fresh_start}")
    assert entries[SHORT].identity.timer == "graph, scripted"
    assert entries[OTHER].identity.timer == "events, scripted"
    notes = [run.notes for run in entries[SHORT].runs]
    assert ["timer auto: graph" in each for each in notes] == [True] * 3


def test_a_baselines_choice_is_kept_by_session_and_fresh_processes(choosing) -> None:
    saved(choosing, "--gpuperf-runs=5")
    script(choosing, below=0.001)
    choosing.times(op1=7.0)
    assert choosing.verdicts("-k", "op1 or other", "--gpuperf-confirm-runs=7")[SHORT] != "incomparable"
    record = decode_session((choosing.path / "verdicts.json").read_bytes(), "the session")
    (outcome,) = [one for one in record.outcomes if one.benchmark.node_id == SHORT]
    assert outcome.identity.timer == "graph, scripted"
    assert ["timer auto: graph" in run.notes for run in outcome.runs] == [True] * 8


def test_what_can_no_longer_be_captured_is_measured_and_incomparable(choosing, told) -> None:
    saved(choosing)
    script(choosing, capturable=False)
    result = choosing.gate("-k", "op1 or other")
    assert result.ret == 0
    assert "timer: graph, scripted in the baseline, now events, scripted" in told(result)


def test_a_graph_that_was_asked_for_fails_where_it_cannot_be(choosing, told) -> None:
    script(choosing, capturable=False)
    result = choosing.gate(SHORT, "--gpuperf-timer=graph")
    assert result.ret == 1
    assert "timer `graph` cannot time this call: the script says so. Use timer=events" in told(result)


def test_both_sides_of_a_comparison_have_one_timer(choosing) -> None:
    choosing.add(
        "test_suite.py",
        """

def test_sides(gpubench, work):
    gpubench.compare({"short": lambda: work("op1") and 1, "long": lambda: work("other") and 1})
""",
    )
    script(choosing, fresh_below=0.001)
    assert choosing.run("--gpuperf-save-baseline", "--gpuperf-runs=2", "-k", "sides").ret == 0
    assert {entry.identity.timer for entry in choosing.entries().values()} == {"graph, scripted"}


def test_a_process_that_could_not_capture_is_left_out_and_told_of(choosing) -> None:
    script(choosing, captured_by=2)
    result = choosing.run("--gpuperf-save-baseline", "--gpuperf-runs=4", SHORT)
    assert result.ret == 0
    entry = choosing.entries()[SHORT]
    assert entry.identity.timer == "graph, scripted"
    assert len(entry.runs) == 2
    assert "2 of 3 fresh runs are left out: timer: events, scripted in place of graph, scripted" in entry.runs[0].notes
