"""The gate on one baseline: what a run means at first sight, and what all runs mean in the end."""

from __future__ import annotations

import msgspec
import pytest

from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Workload
from pytest_gpuperf.session.findings import Look
from pytest_gpuperf.session.gate import Gate
from pytest_gpuperf.settings import BenchmarkSettings
from pytest_gpuperf.store.schema import Baseline, Entry

IDENTITY = Identity(timer="events, scripted", cache="cold", workload=Workload(arguments="x"))
KNOWN = BenchmarkId.of("test_a.py::test_a")
UNKNOWN = BenchmarkId.of("test_a.py::test_b")
SETTINGS = BenchmarkSettings()


@pytest.fixture
def make_gate(make_run):
    """Return what makes a gate on a baseline of one benchmark with some runs of about 100 us."""

    def make(count: int = 10, *, collected: tuple[str, ...] = ("test_a.py::test_a",), **changes) -> Gate:
        runs = tuple(make_run(100.0 + 0.1 * (number % 3)) for number in range(count))
        entry = Entry(benchmark=KNOWN, identity=IDENTITY, runs=runs)
        baseline = Baseline(machine_model="Fake", entries={KNOWN.key: entry})
        known = {"name": "baseline main", "other_models": (), "confirm_runs": 7, **changes}
        return Gate(known.pop("baseline", baseline), collected=lambda: collected, **known)

    return make


@pytest.mark.parametrize(
    ("us", "look"), [(100.1, Look.SETTLED), (101.0, Look.SUSPECT), (150.0, Look.SUSPECT), (70.0, Look.FASTER)]
)
def test_the_first_look(make_gate, make_run, us: float, look: Look) -> None:
    assert make_gate().look(KNOWN, IDENTITY, make_run(us), SETTINGS) is look


def test_nothing_to_compare_with_is_settled(make_gate, make_run) -> None:
    slow = make_run(500.0)
    other = msgspec.structs.replace(IDENTITY, timer="wall")
    assert make_gate().look(UNKNOWN, IDENTITY, slow, SETTINGS) is Look.SETTLED
    assert make_gate().look(KNOWN, other, slow, SETTINGS) is Look.SETTLED
    assert make_gate(count=4).look(KNOWN, IDENTITY, slow, SETTINGS) is Look.SETTLED
    assert make_gate(baseline=None).look(KNOWN, IDENTITY, slow, SETTINGS) is Look.SETTLED


@pytest.mark.parametrize(
    ("us", "verdict"), [(100.1, "unchanged"), (110.0, "regressed"), (90.0, "improved"), (100.5, "unchanged")]
)
def test_the_verdict_on_all_runs(make_gate, make_run, us: float, verdict: str) -> None:
    runs = [make_run(us + 0.1 * (number % 3)) for number in range(8)]
    assert make_gate().decide(KNOWN, IDENTITY, runs, SETTINGS).verdict == verdict


def test_verdicts_without_a_comparison(make_gate, make_run) -> None:
    runs = [make_run()]
    new = make_gate().decide(UNKNOWN, IDENTITY, runs, SETTINGS)
    elsewhere = make_gate(save_option="--gpuperf-save-baseline=v1").decide(UNKNOWN, IDENTITY, runs, SETTINGS)
    assert elsewhere.reason.endswith("; store it with --gpuperf-save-baseline=v1")
    assert (new.verdict, new.reason) == ("new", "not in baseline main; store it with --gpuperf-save-baseline")
    moved = make_gate(baseline=None, other_models=["NVIDIA-A100"]).decide(KNOWN, IDENTITY, runs, SETTINGS)
    assert moved.verdict == "incomparable"
    assert "was measured on NVIDIA-A100, not on this machine" in moved.reason
    other = make_gate().decide(KNOWN, msgspec.structs.replace(IDENTITY, cache="warm"), runs, SETTINGS)
    assert other.verdict == "incomparable"
    assert "cache mode: cold in the baseline, now warm" in other.reason


def test_levels_follow_the_settings_and_the_number_of_benchmarks(make_gate) -> None:
    settings = BenchmarkSettings(min_effect=0.03, alpha=1e-4, detectable=0.2)
    policy = make_gate().policy(settings)
    assert (policy.min_effect, policy.alpha, policy.detectable) == (0.03, 1e-4, 0.2)
    assert (policy.gated, policy.confirm_runs) == (1, 7)
    assert make_gate(collected=()).policy(SETTINGS).gated == 1


def test_benchmarks_gated_are_those_collected_that_can_fail(make_gate) -> None:
    entries = {
        BenchmarkId.of(f"test_a.py::test_{n}").key: Entry(
            benchmark=BenchmarkId.of(f"test_a.py::test_{n}"),
            identity=IDENTITY,
            runs=make_gate().entries[KNOWN.key].runs[:n],
        )
        for n in range(1, 11)
    }
    collected = tuple(f"test_a.py::test_{n}" for n in (1, 4, 5, 6, 7))
    gate = make_gate(baseline=Baseline(machine_model="Fake", entries=entries), collected=collected)
    assert gate.policy(SETTINGS).gated == 3


def test_the_stored_timer_is_the_first_word_of_its_identity(make_gate) -> None:
    assert make_gate().stored_timer(KNOWN) == "events"
    assert make_gate().stored_timer(UNKNOWN) is None
