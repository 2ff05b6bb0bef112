"""Outcomes to report."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import Decision
from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Workload
from pytest_gpuperf.measure.samples import RunRecord

MakeOutcome = Callable[..., Outcome]


def _run(mean_us: float, **figures: object) -> RunRecord:
    return RunRecord(
        trials=200,
        log_median=math.log(mean_us * 0.998),
        mean_us=mean_us,
        sd_us=mean_us * 0.02,
        min_us=mean_us * 0.97,
        p5_us=mean_us * 0.98,
        p95_us=mean_us * 1.03,
        half_width_us=mean_us * 0.003,
        **figures,
    )


@pytest.fixture
def make_outcome() -> MakeOutcome:
    def make(
        node_id: str = "tests/test_softmax.py::test_softmax[4096]",
        verdict: str = "unchanged",
        *,
        name: str = "",
        mean_us: float = 57.9,
        runs: int = 1,
        reason: str = "at most 1.2 % slower",
        figures: dict[str, object] | None = None,
        group: str = "",
        share: float | None = None,
        **decided: object,
    ) -> Outcome:
        return Outcome(
            benchmark=BenchmarkId.of(node_id, name),
            identity=Identity(timer="events", cache="cold", workload=Workload()),
            runs=tuple(_run(mean_us, **(figures or {})) for _ in range(runs)),
            decision=Decision(verdict=verdict, reason=reason, new_runs=runs, **decided),
            group=group,
            ceiling_share=share,
        )

    return make


@pytest.fixture
def regressed(make_outcome: MakeOutcome) -> Outcome:
    """A confirmed slowdown with every figure there is."""
    return make_outcome(
        "tests/test_gelu.py::test_gelu[triton-67108864-bfloat16]",
        "regressed",
        mean_us=78.9,
        runs=8,
        reason="4.8 % slower (95 % interval 3.1 % to 6.6 %), 8 runs against 10",
        ratio=1.0483,
        ratio_low=1.031,
        ratio_high=1.0662,
        p_welch=2.1e-7,
        p_rank=2.3e-5,
        raw_ratio=1.045,
        clock_sensitivity=0.6,
        baseline_runs=10,
        baseline_mean_us=75.2,
        new_mean_us=78.9,
        baseline_clock_ghz=1.755,
        new_clock_ghz=1.761,
        findings=("kernels changed: −gelu_kernel, +gelu_kernel_v2", "driver 580.65.06 → 580.82.07"),
    )
