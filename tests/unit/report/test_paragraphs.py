"""What a failed test says."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.report.paragraphs import headline, repeat_command, verdict_paragraph

MakeOutcome = Callable[..., Outcome]


def _decided(outcome: Outcome, **changes: object) -> Outcome:
    return msgspec.structs.replace(outcome, decision=msgspec.structs.replace(outcome.decision, **changes))


def test_golden_text_of_a_regression(regressed: Outcome) -> None:
    expected = """\
slower by 4.8 % [3.1, 6.6] over 10 + 8 runs, p = 2e-7
The mean went from 75.20 us (10 baseline runs) to 78.90 us (8 new runs). Were the code slower by
no more than 1 % (min_effect), as much would show with p = 2e-7 (Welch's t-test) and p = 2e-5
(rank test); the gate fails at 0.001.
SM clock: 1.755 GHz in the baseline, 1.761 GHz now; the change is adjusted for it (unadjusted:
+4.5 %).
What else changed:
  - kernels changed: −gelu_kernel, +gelu_kernel_v2
  - driver 580.65.06 → 580.82.07
To repeat: pytest --gpuperf 'tests/test_gelu.py::test_gelu[triton-67108864-bfloat16]'"""
    assert verdict_paragraph(regressed, repeat_command=repeat_command(regressed.benchmark.node_id)) == expected


CARRIED_AWAY = "Single slow calls carry these means away"


@pytest.mark.parametrize("new_mean_us", [20.0, 66.0, 98.0, 150.0, 160.0, 170.0, 300.0])
def test_means_that_tell_another_story_are_not_left_alone(regressed: Outcome, new_mean_us: float) -> None:
    """A reader of "slower by 97 %" and "the mean went from 610 us to 205 us" would trust neither."""
    twice = _decided(
        regressed, ratio=1.97, ratio_low=1.87, ratio_high=2.07, raw_ratio=1.99, baseline_mean_us=80.0,
        new_mean_us=new_mean_us,
    )  # fmt: skip
    assert (CARRIED_AWAY in verdict_paragraph(twice).replace("\n", " ")) == (new_mean_us not in (150.0, 160.0, 170.0))


@pytest.mark.parametrize("verdict", ["unchanged", "inconclusive"])
@pytest.mark.parametrize(("new_mean_us", "apart"), [(75.0, False), (76.5, False), (60.0, True), (120.0, True)])
def test_means_of_the_same_speed_are_explained_where_they_differ(
    regressed: Outcome, verdict: str, new_mean_us: float, apart: bool
) -> None:
    same = _decided(
        regressed, verdict=verdict, ratio=1.001, ratio_low=0.99, ratio_high=1.012, raw_ratio=1.0, baseline_mean_us=75.2,
        new_mean_us=new_mean_us,
    )  # fmt: skip
    assert (CARRIED_AWAY in verdict_paragraph(same).replace("\n", " ")) == apart


def test_nothing_else_changed_is_said(regressed: Outcome) -> None:
    text = verdict_paragraph(_decided(regressed, findings=()))
    assert text.endswith("\nNothing else that is recorded of it has changed.")


def test_a_provisional_regression_says_so(regressed: Outcome) -> None:
    text = verdict_paragraph(_decided(regressed, provisional=True))
    assert "The baseline's runs are all of one session, so this is provisional." in text.replace("\n", " ")


def test_an_unmetered_clock_is_not_spoken_of(regressed: Outcome) -> None:
    text = verdict_paragraph(_decided(regressed, baseline_clock_ghz=None, new_clock_ghz=None))
    assert "clock" not in text


def test_a_clock_that_explains_nothing_is_still_told(regressed: Outcome) -> None:
    text = verdict_paragraph(_decided(regressed, clock_sensitivity=0.0, baseline_clock_ghz=None))
    assert "SM clock: not metered in the baseline, 1.761 GHz now." in text


def test_the_levels_are_those_of_the_decision(regressed: Outcome) -> None:
    policy = Policy(min_effect=0.0125, alpha=1e-2, session_alpha=0.05, gated=200)
    kept = msgspec.structs.replace(regressed, policy=policy)
    assert verdict_paragraph(kept) == verdict_paragraph(regressed, policy=policy)
    told = verdict_paragraph(kept).replace("\n", " ")
    assert "no more than 1.25 % (min_effect)" in told
    assert "the gate fails at 0.00025 and 0.01." in told


@pytest.mark.parametrize("metric", ["peak memory", "kernels"])
def test_an_exact_figure_heads_its_own_regression(regressed: Outcome, metric: str) -> None:
    outcome = _decided(regressed, metric=metric, reason="peak memory rose from 256 MiB to 512 MiB", p_welch=0.4)
    lines = verdict_paragraph(outcome).splitlines()
    assert lines[0] == "peak memory rose from 256 MiB to 512 MiB (10 + 8 runs)"
    assert "The time: +4.8 % [+3.1, +6.6]." in " ".join(lines)
    assert "min_effect" not in "".join(lines)


def test_raw_time_alone_is_told_by_its_reason(regressed: Outcome) -> None:
    outcome = _decided(regressed, p_welch=0.3, reason="3.0 % slower (95 % interval 2.0 % to 4.0 %), as measured")
    assert headline(outcome.decision) == "3.0 % slower (95 % interval 2.0 % to 4.0 %), as measured (10 + 8 runs)"


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        ("inconclusive", "between-run spread 3.1 %; needs 4 more runs"),
        ("new", "not in baseline 'main'"),
        ("incomparable", "timer: graph in the baseline, now events"),
    ],
)
def test_other_verdicts_give_their_reason(make_outcome: MakeOutcome, verdict: str, reason: str) -> None:
    outcome = make_outcome(verdict=verdict, reason=reason, new_mean_us=57.9)
    assert verdict_paragraph(outcome) == f"{verdict}: {reason}\nThe mean is 57.90 us (1 new run)."


def test_an_inconclusive_one_says_what_was_seen(make_outcome: MakeOutcome) -> None:
    outcome = make_outcome(
        verdict="inconclusive", reason="too noisy", ratio=1.03, ratio_low=0.97, ratio_high=1.09, baseline_runs=10
    )
    assert verdict_paragraph(outcome) == "inconclusive: too noisy\nThe time: +3.0 % [-3.0, +9.0]."


def test_a_missing_one_says_what_to_do(make_outcome: MakeOutcome) -> None:
    text = verdict_paragraph(make_outcome(verdict="missing", reason="in the baseline, but not measured", runs=0))
    assert text.startswith("missing: in the baseline, but not measured\nWas it renamed or removed?")
    assert "'gpuperf rename'" in text
    assert "'gpuperf prune'" in text


def test_one_of_several_benchmarks_is_named_first(make_outcome: MakeOutcome) -> None:
    text = verdict_paragraph(make_outcome(verdict="new", reason="not in the baseline", name="backward"))
    assert text.splitlines()[0] == "backward: new: not in the baseline"


def test_notes_are_told_once(make_outcome: MakeOutcome) -> None:
    outcome = make_outcome(runs=3, figures={"notes": ("launch-bound", "unstable")})
    assert verdict_paragraph(outcome).splitlines()[-2:] == ["Note: launch-bound", "Note: unstable"]


def test_the_choice_of_the_timer_is_told_once_whatever_its_figures(make_outcome: MakeOutcome) -> None:
    outcome = make_outcome("regressed")
    notes = [(f"timer auto: graph ({time_us} us a call)", "unstable") for time_us in (2.1, 2.2)]
    runs = [msgspec.structs.replace(outcome.runs[0], notes=each) for each in notes]
    told = verdict_paragraph(msgspec.structs.replace(outcome, runs=tuple(runs)))
    assert told.splitlines()[-2:] == ["Note: timer auto: graph (2.1 us a call)", "Note: unstable"]


def test_lines_fit_a_hundred_columns(regressed: Outcome) -> None:
    findings = ("kernels changed: " + ", ".join(f"+void kernel_{i}<float, {i}>" for i in range(30)),)
    lines = verdict_paragraph(_decided(regressed, findings=findings)).splitlines()
    assert max(map(len, lines)) <= 100
    assert not any(line.startswith("%") for line in lines)


def test_the_command_is_quoted_for_the_shell() -> None:
    assert repeat_command("t.py::test_a[it's $x]", "--gpuperf-baseline=old") == (
        """pytest --gpuperf --gpuperf-baseline=old 't.py::test_a[it'"'"'s $x]'"""
    )
