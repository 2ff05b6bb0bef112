"""Rounds of benchmarks/exchangeability.py: what is compared of them, and which record may be continued."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pytest_gpuperf.measure.samples import RunRecord

ABOUT = {"python": "3.12", "date": "2026-12-01", "torch": "2.11", "gpu": "a card, 580"}


@pytest.fixture(scope="module")
def rounds(script_module):
    return script_module("exchangeability_rounds")


@pytest.fixture
def setup(rounds):
    return rounds.Setup(code="c0de", max_time="0.2", conditions=["alone", "own"], subjects=["add"], suite=[])


def run(log_time):
    figures = dict.fromkeys(("mean_us", "min_us", "p5_us", "p95_us"), math.exp(log_time))
    return RunRecord(trials=9, log_median=log_time, locations=(log_time,), sd_us=0.0, half_width_us=0.0, **figures)


def measured(rounds, *pairs):
    """Return rounds in which `alone` and `own` took these log times."""
    kept = rounds.Rounds()
    for alone, own in pairs:
        kept.take("alone", "add", run(alone))
        kept.take("own", "add", run(own))
        kept.end_round("2026-12-01")
    return kept


def record(kept, setup, **changes):
    return json.loads(json.dumps({"machine": ABOUT, **asdict(setup), **kept.plain(), **changes}))


def test_ratios_are_to_the_suite_and_to_the_first_condition_without_it(rounds, setup):
    assert setup.base == "alone"
    assert replace(setup, conditions=["suite", "own"]).base == "suite"
    cells = rounds.compare(measured(rounds, (1.0, 1.02), (1.2, 1.24)).whole, setup)["add"]
    assert list(cells) == ["alone", "own"]
    assert cells["alone"]["adjusted"] == 0.0
    assert cells["own"]["adjusted"] == pytest.approx(0.03)
    assert cells["own"]["standard_error"] == pytest.approx(0.11)
    assert rounds.largest({"add": cells}) == pytest.approx(math.expm1(0.03))


def test_one_round_is_told_without_standard_errors(rounds, setup):
    compared = rounds.compare(measured(rounds, (1.0, 1.02)).whole, setup)
    assert compared["add"]["own"]["standard_error"] is None
    text = rounds.report(compared, setup, 1)
    assert "rounds: 1; compared with: alone" in text
    assert "(one round: it says nothing yet)" in text
    [row] = [line.split() for line in text.splitlines() if line.startswith("add") and " own " in line]
    assert row == ["add", "own", "2.77", "0.000", "+2.00", "+2.00"]


def test_runs_of_a_round_that_was_cut_short_are_kept_and_not_compared(rounds, setup):
    kept = measured(rounds, (1.0, 1.0), (1.0, 1.0))
    kept.take("own", "add", run(9.0))
    assert rounds.largest(rounds.compare(kept.whole, setup)) == 0.0
    later = rounds.continued(Path("r.json"), record(kept, setup), ABOUT, setup)
    assert [runs["own"]["add"][0]["log_median"] for runs in later.plain()["unfinished"]] == [9.0]
    assert later.whole == kept.whole


def test_a_continued_record_has_the_rounds_of_both(rounds, setup):
    first = measured(rounds, (1.0, 1.01))
    first.seconds = {"server": [9.0], "own": [15.0]}
    both = rounds.continued(Path("r.json"), record(first, setup), {**ABOUT, "date": "2026-12-02"}, setup)
    both.take("alone", "add", run(2.0))
    both.take("own", "add", run(2.03))
    both.end_round("2026-12-02")
    assert both.dates == ["2026-12-01", "2026-12-02"]
    assert both.seconds == first.seconds
    assert rounds.compare(both.whole, setup)["add"]["own"]["adjusted"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"machine": {**ABOUT, "gpu": "another, 580"}}, "gpu another, 580 there, a card, 580 here"),
        ({"machine": {**ABOUT, "triton": "3.6"}}, "triton 3.6 there, (not said) here"),
        ({"code": "0ther"}, "code 0ther there, c0de here"),
        ({"conditions": ["suite", "own"]}, "conditions ['suite', 'own'] there, ['alone', 'own'] here"),
        ({"subjects": ["mul"]}, "subjects ['mul'] there"),
        ({"max_time": "0.1"}, "max_time 0.1 there, 0.2 here"),
    ],
)
def test_a_record_of_something_else_is_not_continued(rounds, setup, theirs, said):
    earlier = record(measured(rounds, (1.0, 1.0)), setup, **theirs)
    with pytest.raises(SystemExit, match=re.escape(said)):
        rounds.continued(Path("r.json"), earlier, ABOUT, setup)


def test_a_record_that_does_not_say_its_code_is_not_continued(rounds, setup):
    earlier = record(measured(rounds, (1.0, 1.0)), setup)
    del earlier["code"]
    with pytest.raises(SystemExit, match=r"code \(not said\) there"):
        rounds.continued(Path("r.json"), earlier, ABOUT, setup)


@pytest.mark.parametrize("content", [None, "", "{", "[1]"])
def test_what_is_no_record_is_refused_by_name(rounds, tmp_path, content):
    path = tmp_path / "r.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit, match=r"r\.json is no record"):
        rounds.load(path)
