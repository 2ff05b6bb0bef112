"""What must hold of a verdict for every input there is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_gpuperf.compare.decide import decide
from pytest_gpuperf.compare.moderation import Prior, Scale, suite_prior
from pytest_gpuperf.compare.screen import screen
from pytest_gpuperf.compare.shift import Comparison, settle
from pytest_gpuperf.compare.verdict import VERDICTS, Policy
from pytest_gpuperf.measure.samples import RunRecord

ANYTHING = st.floats(allow_nan=False, allow_infinity=False)
LOG_TIMES = st.floats(-10, 20)
SMALL = st.integers(-60, 60).map(lambda k: k / 1000)
POLICY = Policy()


@st.composite
def records(draw: st.DrawFn, values: st.SearchStrategy[float] = ANYTHING) -> RunRecord:
    value = draw(values)
    points = draw(st.lists(st.tuples(values, values), max_size=4))
    return RunRecord(
        session=draw(st.sampled_from(["a", "b", "c", "d"])),
        trials=draw(st.integers(1, 1000)),
        log_median=value,
        mean_us=abs(draw(values)),
        sd_us=0.0,
        min_us=0.0,
        p5_us=0.0,
        p95_us=0.0,
        half_width_us=0.0,
        batches=tuple(points),
        clock_ghz=draw(st.none() | values.map(abs)),
        locations=tuple(draw(st.lists(values, max_size=5))),
        resolution_us=draw(st.sampled_from([0.0, 0.032, 1e300])),
        peak_memory_bytes=draw(st.none() | st.integers(0, 2**60)),
        kernels=draw(st.none() | st.lists(st.sampled_from("abc"), max_size=3).map(tuple)),
    )


def arms(values: st.SearchStrategy[float] = ANYTHING) -> st.SearchStrategy[tuple[list, list]]:
    few = st.lists(records(values), max_size=8)
    return st.tuples(few, few)


PRIORS = st.none() | st.builds(
    Prior,
    runs=st.builds(Scale, variance=st.floats(1e-8, 1e4), dof=st.floats(0.1, 100)),
    sessions=st.none() | st.builds(Scale, variance=st.floats(1e-3, 1e3), dof=st.floats(0.1, 100)),
)
POLICIES = st.builds(
    Policy,
    min_effect=st.sampled_from([0.0, 0.01, 0.5]),
    alpha=st.sampled_from([1e-6, 1e-3, 0.05]),
    gated=st.sampled_from([0, 1, 1000]),
    interleaved=st.booleans(),
)


def floats(value: object) -> list[float]:
    plain = msgspec.structs.asdict(value)
    return [item for item in plain.values() if isinstance(item, float)]


def plain_runs(values: Sequence[float], **fields: object) -> list[RunRecord]:
    figures = {"mean_us": 1.0, "sd_us": 0.0, "min_us": 1.0, "p5_us": 1.0, "p95_us": 1.0, "half_width_us": 0.0}
    return [RunRecord(trials=50, log_median=v, locations=(v,), **figures, **fields) for v in values]


@settings(max_examples=150, deadline=None)
@given(arms(), POLICIES, PRIORS)
def test_any_finite_input_gives_a_verdict_without_nan_or_infinity(
    both: tuple[list, list], policy: Policy, prior: Prior | None
) -> None:
    baseline, new = both
    decision = decide(baseline, new, policy, prior)
    assert decision.verdict in VERDICTS
    assert decision.reason
    assert all(math.isfinite(x) for x in floats(decision))


@settings(deadline=None)
@given(arms(), POLICIES, PRIORS)
def test_any_finite_input_is_screened(both: tuple[list, list], policy: Policy, prior: Prior | None) -> None:
    baseline, new = both
    for run in new:
        seen = screen(baseline, run, policy, prior)
        assert all(math.isfinite(x) for x in floats(seen))
        assert not (seen.suspect and seen.faster)


@settings(deadline=None)
@given(st.lists(st.lists(records(), max_size=5), max_size=12))
def test_any_suite_gives_a_finite_prior_or_none(baselines: list[list[RunRecord]]) -> None:
    prior = suite_prior(baselines)
    scales = [] if prior is None else [s for s in (prior.runs, prior.sessions) if s is not None]
    assert all(math.isfinite(s.variance) and math.isfinite(s.dof) and s.dof > 0 for s in scales)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(records(), max_size=6), min_size=1, max_size=6), st.randoms(), PRIORS)
def test_any_session_settles(pool: list[list], chooser: random.Random, prior: Prior | None) -> None:
    session = {
        i: Comparison(baseline=chooser.choice(pool), runs=chooser.choice(pool), policy=POLICY) for i in range(22)
    }
    settled = settle(session, prior)
    assert settled.decisions.keys() == session.keys()
    assert settled.shift is None or all(math.isfinite(x) for x in floats(settled.shift))
    assert all(math.isfinite(x) for d in settled.decisions.values() for x in floats(d))


VALUES = st.lists(SMALL, min_size=5, max_size=10, unique=True)


@settings(deadline=None)
@given(VALUES, VALUES, LOG_TIMES)
def test_the_unit_of_time_does_not_matter(baseline: list[float], new: list[float], scale: float) -> None:
    scaled = decide(plain_runs([x + scale for x in baseline]), plain_runs([x + scale for x in new]), POLICY, None)
    decision = decide(plain_runs(baseline), plain_runs(new), POLICY, None)
    assert scaled.ratio == pytest.approx(decision.ratio)
    assert scaled.p_welch == pytest.approx(decision.p_welch, rel=1e-4, abs=1e-12)


@settings(deadline=None)
@given(VALUES, VALUES, st.integers(0, 400))
def test_more_of_a_slowdown_is_never_less_of_a_regression(
    baseline: list[float], new: list[float], more_thousandths: int
) -> None:
    slower = [x + more_thousandths / 1000 for x in new]
    before, after = (decide(plain_runs(baseline), plain_runs(values), POLICY, None) for values in (new, slower))
    assert before.verdict != "regressed" or after.verdict == "regressed"
    assert after.verdict != "improved" or before.verdict == "improved"
    assert before.verdict == "unchanged" or after.verdict != "unchanged" or before.verdict == "improved"


@settings(deadline=None)
@given(VALUES, VALUES)
def test_improved_mirrors_regressed(baseline: list[float], new: list[float]) -> None:
    seen = decide(plain_runs(baseline), plain_runs(new), POLICY, None)
    mirrored = decide(plain_runs([-x for x in baseline]), plain_runs([-x for x in new]), POLICY, None)
    swap = {"regressed": "improved", "improved": "regressed"}
    if seen.verdict in swap or mirrored.verdict in swap:
        assert mirrored.verdict == swap[seen.verdict]
        assert mirrored.p_welch == pytest.approx(seen.p_welch)
        assert mirrored.p_rank == seen.p_rank
    assert mirrored.ratio == pytest.approx(1 / seen.ratio)


@settings(deadline=None)
@given(arms(LOG_TIMES), st.integers(0, 1000))
def test_the_order_of_runs_does_not_matter(both: tuple[list, list], seed: int) -> None:
    baseline, new = both
    mixed = [random.Random(seed).sample(side, len(side)) for side in both]
    one, other = decide(baseline, new, POLICY, None), decide(*mixed, POLICY, None)
    assert one.verdict == other.verdict
    assert floats(one) == pytest.approx(floats(other), rel=1e-6)


@settings(deadline=None)
@given(VALUES, st.integers(0, 2**32 - 1))
def test_shuffled_labels_regress_no_more_often_than_alpha(values: list[float], seed: int) -> None:
    """Whatever the values: of all ways to deal them, at most alpha are called regressed (here: of a sample)."""
    generator = np.random.default_rng(seed)
    pool = np.array([*values, *(v * 3 + 1e-4 for v in values)])
    alarms = 0
    for _ in range(20):
        mixed = generator.permutation(pool)
        policy = Policy(min_effect=0.0)
        cut = len(mixed) // 2
        alarms += decide(plain_runs(mixed[:cut]), plain_runs(mixed[cut:]), policy, None).verdict == "regressed"
    assert alarms <= 1
