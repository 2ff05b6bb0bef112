"""The section that ends a session."""

from __future__ import annotations

from collections.abc import Callable

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.report.accounting import Accounting, account
from pytest_gpuperf.report.summary import explanations, gpuperf_section, hints, machine_changes, section_title

MakeOutcome = Callable[..., Outcome]
H200 = Machine(model="NVIDIA H200", kind="cuda", driver="580.1", torch="2.11", host="node1")


def _accounted(outcomes: list[Outcome]) -> Accounting:
    stored = {o.benchmark.key for o in outcomes if o.decision.verdict != "new"}
    measured = {o.benchmark.key for o in outcomes if o.decision.verdict != "missing"}
    return account(stored, measured=measured, missing=stored - measured)


def test_golden_text(make_outcome: MakeOutcome, regressed: Outcome) -> None:
    noisy = "between-run spread 3.1 %: the smallest slowdown visible is 7.0 %; needs 4 more runs"
    unchanged = {"ratio": 1.002, "ratio_low": 0.996, "ratio_high": 1.008, "provisional": True}
    outcomes = [
        regressed,
        make_outcome("t.py::test_a", **unchanged),
        make_outcome("t.py::test_b", "inconclusive", reason=noisy, ratio=1.03),
        make_outcome("t.py::test_c", "new", reason="not in the baseline"),
        make_outcome("t.py::test_d", "missing", reason="not measured", runs=0),
    ]
    expected = """\
name                                     mean      ±          vs baseline  verdict
---------------------------------------------------------------------------------------
test_gelu[triton-67108864-bfloat16]  78.90 us  0.3 %  +4.8 % [+3.1, +6.6]  regressed
test_a                               57.90 us  0.3 %  +0.2 % [-0.4, +0.8]  unchanged
test_b                               57.90 us  0.3 %               +3.0 %  inconclusive
test_c                               57.90 us  0.3 %                    -  new
test_d                                      -      -                    -  missing

inconclusive: test_b: between-run spread 3.1 %: the smallest slowdown visible is 7.0 %; needs 4 more
  runs
missing: test_d: not measured
Since the baseline: driver was 580.1, now 580.2.
Provisional: the baseline is of one session only (--gpuperf-extend-baseline adds others).
New benchmarks gate nothing until --gpuperf-save-baseline stores them.
1 entry was stored.
1 regressed, 1 unchanged, 1 inconclusive, 1 new, 1 missing
4 measured + 1 missing = 4 in the baseline + 1 new"""
    lines = gpuperf_section(
        outcomes,
        _accounted(outcomes),
        baseline_name="main",
        machine_changes=["driver was 580.1, now 580.2"],
        notes=["1 entry was stored."],
        width=100,
    )
    assert "\n".join(lines) == expected


def test_without_a_baseline_it_says_how_to_get_one(make_outcome: MakeOutcome) -> None:
    outcomes = [make_outcome(verdict="new")]
    assert hints(outcomes, _accounted(outcomes), "nightly") == [
        "There is no baseline nightly for these benchmarks yet: pytest --gpuperf-save-baseline=nightly saves one."
    ]
    assert hints(outcomes, _accounted(outcomes), "main") == [
        "There is no baseline main for these benchmarks yet: pytest --gpuperf-save-baseline saves one."
    ]


def test_nothing_to_hint_at(make_outcome: MakeOutcome) -> None:
    outcomes = [make_outcome()]
    assert hints(outcomes, _accounted(outcomes), "main") == []


def test_benchmarks_of_one_reason_share_a_line(make_outcome: MakeOutcome) -> None:
    outcomes = [make_outcome(f"t.py::test_{i}", "incomparable", reason="other timer") for i in range(6)]
    assert explanations(outcomes) == ["incomparable: test_0, test_1, test_2 and 3 more: other timer"]


def test_a_fourth_name_is_not_replaced_by_a_count_of_one(make_outcome: MakeOutcome) -> None:
    outcomes = [make_outcome(f"t.py::test_{i}", "incomparable", reason="other timer") for i in range(4)]
    assert explanations(outcomes) == ["incomparable: test_0, test_1, test_2, test_3: other timer"]


def test_a_noisy_suite_does_not_flood_the_terminal(make_outcome: MakeOutcome) -> None:
    outcomes = [make_outcome(f"t.py::test_{i}", "inconclusive", reason=f"spread {i} %") for i in range(30)]
    lines = explanations(outcomes, 8)
    assert len(lines) == 9
    assert lines[-1] == "and 22 more without a clear verdict: 'gpuperf show latest' tells why"
    assert len(explanations(outcomes)) == 30


def test_a_session_that_stores_needs_no_hint_to_store(make_outcome: MakeOutcome) -> None:
    outcomes = [make_outcome(verdict="new")]
    assert any(line.startswith("There is no baseline") for line in _told(outcomes))
    assert not any(line.startswith("There is no baseline") for line in _told(outcomes, storing=True))


def _told(outcomes: list[Outcome], **options: bool) -> list[str]:
    return gpuperf_section(outcomes, _accounted(outcomes), baseline_name="main", **options)


def test_an_empty_session_has_its_account(make_outcome: MakeOutcome) -> None:
    lines = gpuperf_section([], account({"a"}, deselected={"a"}), baseline_name="main")
    assert lines == ["no verdicts", "0 measured + 1 deselected = 1 in the baseline + 0 new"]


def test_only_what_changed_about_the_machine_is_said() -> None:
    now = Machine(model="NVIDIA H200", kind="cuda", driver="580.2", torch="2.11", triton="3.6", host="node1")
    assert machine_changes([H200, H200], now) == ["driver was 580.1, now 580.2"]


def test_fewer_threads_are_said() -> None:
    before, now = (Machine(model="EPYC", kind="cpu", threads=threads) for threads in ("8 cores", "2 cores"))
    assert machine_changes([before], now) == ["threads was 8 cores, now 2 cores"]


def test_a_machine_that_the_baseline_has_met_is_no_change() -> None:
    other = Machine(model="NVIDIA H200", kind="cuda", driver="570.9", torch="2.10", host="node2")
    assert machine_changes([H200, other], other) == []
    third = Machine(model="NVIDIA H200", kind="cuda", host="node3")
    assert machine_changes([H200, other], third) == ["host was node1 and node2, now node3"]


def test_section_title() -> None:
    assert section_title(H200, "baseline main") == "gpuperf: NVIDIA H200, baseline main"
