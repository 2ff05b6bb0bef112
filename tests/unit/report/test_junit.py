"""Properties of a test case."""

from __future__ import annotations

from collections.abc import Callable

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.report.junit import junit_properties


def test_what_is_known_is_there(regressed: Outcome) -> None:
    properties = dict(junit_properties(regressed))
    assert properties["gpuperf_verdict"] == "regressed"
    assert properties["gpuperf_ratio"] == 1.0483
    assert properties["gpuperf_p_welch"] == 2.1e-7
    assert properties["gpuperf_runs"] == 8
    assert properties["gpuperf_mean_us"] == 78.9
    assert properties["gpuperf_timer"] == "events"
    assert "gpuperf_host_us" not in properties


def test_figures_are_short(make_outcome: Callable[..., Outcome]) -> None:
    properties = dict(junit_properties(make_outcome(ratio=1.23456789, mean_us=100 / 3)))
    assert properties["gpuperf_ratio"] == 1.23457
    assert properties["gpuperf_mean_us"] == 33.3333


def test_values_are_plain(regressed: Outcome) -> None:
    assert {type(value) for _, value in junit_properties(regressed)} <= {str, int, float}


def test_a_named_benchmark_says_which_it_is(make_outcome: Callable[..., Outcome]) -> None:
    assert dict(junit_properties(make_outcome(name="backward")))["gpuperf_verdict[backward]"] == "unchanged"


def test_a_missing_one_has_no_figures(make_outcome: Callable[..., Outcome]) -> None:
    names = {name for name, _ in junit_properties(make_outcome(verdict="missing", runs=0))}
    assert "gpuperf_mean_us" not in names
    assert "gpuperf_verdict" in names
