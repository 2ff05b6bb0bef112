"""The counts add up, or say loudly that they do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.report.accounting import Accounting, account, accounting_lines, count_verdicts, verdict_line


def test_the_line_says_the_sum() -> None:
    accounting = account({"a", "b", "c", "d"}, measured={"a", "new"}, failed={"b"}, skipped={"c"}, missing={"d"})
    assert accounting_lines(accounting) == ["2 measured + 1 failed + 1 skipped + 1 missing = 4 in the baseline + 1 new"]


def test_what_is_nothing_is_not_said_but_measured_is() -> None:
    assert accounting_lines(account(set())) == ["0 measured = 0 in the baseline + 0 new"]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=30))
def test_disjoint_and_complete_parts_balance(benchmarks: list[tuple[int, bool]]) -> None:
    names = ("measured", "failed", "skipped", "deselected", "missing")
    parts: dict[str, set[str]] = {name: set() for name in names}
    for index, (part, _) in enumerate(benchmarks):
        parts[names[part]].add(str(index))
    stored = {str(index) for index, (_, is_stored) in enumerate(benchmarks) if is_stored}
    accounting = account(stored, **parts)
    assert accounting.balanced
    assert accounting.new == len(benchmarks) - len(stored)
    assert len(accounting_lines(accounting)) == 1


def test_a_lost_benchmark_is_an_internal_error() -> None:
    line, error = accounting_lines(account({"a", "b"}, measured={"a"}))
    assert line == "1 measured ≠ 2 in the baseline + 0 new"
    assert error.startswith("INTERNAL ERROR: benchmarks were counted twice or lost: b. ")


def test_one_counted_twice_is_found_even_if_the_sum_comes_out() -> None:
    accounting = account({"a", "b"}, measured={"a"}, skipped={"a"})
    assert not accounting.balanced
    assert accounting.unbalanced == ("a", "b")


def test_many_lost_ones_are_not_all_named() -> None:
    error = accounting_lines(account({str(i) for i in range(10)}))[1]
    assert ": 0, 1, 2, 3, 4 and 5 more. " in error


def test_wrong_numbers_alone_are_an_error_too() -> None:
    assert not Accounting(measured=3, baseline=2).balanced


def test_counts_go_into_a_record_and_back() -> None:
    accounting = account({"a"}, measured={"a", "b"})
    assert Accounting.from_counts({**accounting.counts(), "of a later version": 3}) == accounting


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "no verdicts"),
        (["unchanged", "regressed", "unchanged"], "1 regressed, 2 unchanged"),
        (["incomparable", "missing", "new"], "1 new, 1 missing, 1 incomparable"),
    ],
)
def test_verdict_line(verdicts: list[str], expected: str) -> None:
    assert verdict_line(verdicts) == expected


def test_count_verdicts() -> None:
    assert count_verdicts(["new", "new"]) == {"new": 2}
