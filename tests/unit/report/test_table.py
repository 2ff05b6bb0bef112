"""The table: its text, its order and groups, and that it fits."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pytest_gpuperf import settings
from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.plan import Workload
from pytest_gpuperf.report.columns import COLUMN_NAMES, COLUMNS
from pytest_gpuperf.report.names import display_width
from pytest_gpuperf.report.table import GROUPS, SORTS, results_table


@pytest.fixture
def outcomes(make_outcome: Callable[..., Outcome], regressed: Outcome) -> list[Outcome]:
    ratio = {"ratio": 1.002, "ratio_low": 0.996, "ratio_high": 1.008, "baseline_runs": 10}
    return [
        make_outcome("tests/test_softmax.py::test_softmax[4096]", share=0.98, **ratio),
        regressed,
        make_outcome("tests/test_gelu.py::test_gelu[torch-67108864-bfloat16]", "new", mean_us=1534.5, group="gelu"),
        make_outcome("tests/test_step.py::test_old_step", "missing", runs=0),
        make_outcome("tests/test_数据.py::test_日本語[値-テスト]", "incomparable", mean_us=0.35),
    ]


def test_golden_text_of_a_wide_terminal(outcomes: list[Outcome]) -> None:
    expected = """\
name                                     mean      ±          vs baseline  verdict       of peak
------------------------------------------------------------------------------------------------
test_softmax[4096]                   57.90 us  0.3 %  +0.2 % [-0.4, +0.8]  unchanged      98.0 %
test_gelu[triton-67108864-bfloat16]  78.90 us  0.3 %  +4.8 % [+3.1, +6.6]  regressed           -
test_gelu[torch-67108864-bfloat16]   1.534 ms  0.3 %                    -  new                 -
test_old_step                               -      -                    -  missing             -
test_日本語[値-テスト]               350.0 ns  0.3 %                    -  incomparable        -"""
    assert results_table(outcomes, width=120) == expected


def test_golden_text_in_eighty_columns(outcomes: list[Outcome]) -> None:
    expected = """\
name                              mean      ±          vs baseline  verdict
--------------------------------------------------------------------------------
test_softmax[4096]            57.90 us  0.3 %  +0.2 % [-0.4, +0.8]  unchanged
test_gelu[tri…8864-bfloat16]  78.90 us  0.3 %  +4.8 % [+3.1, +6.6]  regressed
test_gelu[tor…8864-bfloat16]  1.534 ms  0.3 %                    -  new
test_old_step                        -      -                    -  missing
test_日本語[値-テスト]        350.0 ns  0.3 %                    -  incomparable"""
    assert results_table(outcomes, width=80) == expected
    assert all(display_width(line) <= 80 for line in expected.splitlines())


@pytest.mark.parametrize(("width", "headings"), [(120, {"±", "of peak"}), (80, {"±"}), (66, set())])
def test_names_come_before_the_lesser_columns(outcomes: list[Outcome], width: int, headings: set[str]) -> None:
    head = results_table(outcomes, width=width).splitlines()[0]
    assert {heading for heading in ("±", "of peak") if heading in head} == headings


def test_columns_that_were_asked_for_stay(outcomes: list[Outcome]) -> None:
    asked = ["name", "mean", "error", "ratio", "verdict", "share"]
    assert "of peak" in results_table(outcomes, columns=asked, width=66).splitlines()[0]


def test_short_names_leave_every_column(make_outcome: Callable[..., Outcome]) -> None:
    table = results_table([make_outcome("tests/test_a.py::test_a", share=0.5)], width=60)
    assert "of peak" in table.splitlines()[0]


def test_golden_text_of_groups(outcomes: list[Outcome]) -> None:
    expected = """\
name                                     mean  verdict
-----------------------------------------------------------
tests/test_softmax.py:
test_softmax[4096]                   57.90 us  unchanged
tests/test_gelu.py:
test_gelu[triton-67108864-bfloat16]  78.90 us  regressed
test_gelu[torch-67108864-bfloat16]   1.534 ms  new
tests/test_step.py:
test_old_step                               -  missing
tests/test_数据.py:
test_日本語[値-テスト]               350.0 ns  incomparable"""
    assert results_table(outcomes, group_by="file", columns=["name", "mean", "verdict"], width=80) == expected


def test_every_column_has_its_figure(make_outcome: Callable[..., Outcome]) -> None:
    figures = {"host_us": 12.0, "clock_ghz": 1.755, "peak_memory_bytes": 64 << 20}
    outcome = make_outcome(runs=2, figures=figures, ratio=1.1, baseline_runs=10, share=0.5)
    cells = {name: column.cell(outcome) for name, column in COLUMNS.items()}
    assert cells == {
        "mean": "57.90 us",
        "error": "0.3 %",
        "median": "57.78 us",
        "std": "1.158 us",
        "min": "56.16 us",
        "p5": "56.74 us",
        "p95": "59.64 us",
        "trials": "400",
        "runs": "10 + 2",
        "host": "12.00 us",
        "clock": "1.755 GHz",
        "memory": "64.0 MiB",
        "ratio": "+10.0 %",
        "verdict": "unchanged",
        "share": "50.0 %",
        "bandwidth": "-",
        "compute": "-",
        "bound": "-",
    }


def test_rates_are_of_what_the_test_states(make_outcome: Callable[..., Outcome]) -> None:
    outcome = make_outcome(mean_us=100.0)
    workload = Workload(bytes_moved=3.6e8, flops=6e10)
    stated = replace(outcome, identity=replace(outcome.identity, workload=workload), bound="compute")
    assert [COLUMNS[name].cell(stated) for name in ("bandwidth", "compute", "bound")] == ["3.6", "600", "compute"]


def _order(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[2:]]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("order", ["test_b", "test_a10", "test_a9", "test_c"]),
        ("name", ["test_a9", "test_a10", "test_b", "test_c"]),
        ("mean", ["test_a10", "test_b", "test_a9", "test_c"]),
        ("ratio", ["test_a9", "test_b", "test_a10", "test_c"]),
        ("verdict", ["test_a9", "test_a10", "test_b", "test_c"]),
    ],
)
def test_sorting(make_outcome: Callable[..., Outcome], sort: str, expected: list[str]) -> None:
    outcomes = [
        make_outcome("t.py::test_b", "unchanged", mean_us=2.0, ratio=1.0),
        make_outcome("t.py::test_a10", "improved", mean_us=1.0, ratio=0.5),
        make_outcome("t.py::test_a9", "regressed", mean_us=3.0, ratio=2.0),
        make_outcome("t.py::test_c", "missing", runs=0),
    ]
    assert _order(results_table(outcomes, sort=sort)) == expected


@pytest.mark.parametrize(
    ("group_by", "headings"),
    [
        ("none", []),
        ("file", ["t.py:", "u.py:"]),
        ("function", ["t.py::test_a:", "t.py::test_b:", "u.py::test_a:"]),
        ("param", ["[1]:", "[2]:", "no parameters:"]),
        ("group", ["no group:", "mine:"]),
    ],
)
def test_grouping(make_outcome: Callable[..., Outcome], group_by: str, headings: list[str]) -> None:
    outcomes = [
        make_outcome("t.py::test_a[1]"),
        make_outcome("t.py::test_a[2]", group="mine"),
        make_outcome("t.py::test_b[1]"),
        make_outcome("u.py::test_a", group="mine"),
    ]
    lines = results_table(outcomes, group_by=group_by).splitlines()
    assert [line for line in lines if line.endswith(":")] == headings
    assert len(lines) == 2 + len(outcomes) + len(headings)


@pytest.mark.parametrize(
    "choice",
    [{"sort": "size"}, {"group_by": "colour"}, {"columns": ["name", "speed"]}],
    ids=lambda choice: next(iter(choice)),
)
def test_unknown_choices_name_those_there_are(choice: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"choose from .*(name|file)"):
        results_table([], **choice)


def test_the_settings_offer_what_the_table_can() -> None:
    assert set(settings.SORTS) == set(SORTS)
    assert set(settings.GROUPINGS) == set(GROUPS)
    assert set(settings.COLUMNS) <= set(COLUMN_NAMES)


def test_no_outcomes_no_table() -> None:
    assert results_table([]) == ""


def test_color_changes_nothing_but_color(outcomes: list[Outcome]) -> None:
    colored = results_table(outcomes, color=True)
    assert "\x1b[31;1mregressed\x1b[0m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == results_table(outcomes)


def test_a_thousand_rows_have_a_thousand_names(make_outcome: Callable[..., Outcome]) -> None:
    outcomes = [make_outcome(f"tests/deep/test_{i % 7}.py::test_{'long_' * 20}[{i}-float32]") for i in range(1000)]
    lines = results_table(outcomes, width=80).splitlines()[2:]
    assert len({line.split()[0] for line in lines}) == 1000
    assert max(map(display_width, lines)) <= 80
