from __future__ import annotations

import math

import pytest

from pytest_gpuperf.measure.ceilings import Ceiling, Ceilings
from pytest_gpuperf.measure.physics import assess, bytes_through_memory, speed
from pytest_gpuperf.measure.plan import Identity, Workload
from pytest_gpuperf.measure.samples import RunRecord

CACHE_BYTES = 60_000_000
CEILINGS = Ceilings(
    model="GPU",
    by="a script",
    bandwidth=Ceiling(per_s=4e12),
    matmul={"bf16": Ceiling(per_s=8e14, clock_ghz=1.6), "tf32": Ceiling(per_s=4e14), "fp32": Ceiling(per_s=5e13)},
    cache_bytes=CACHE_BYTES,
    margin=1.1,
    clock_margin=1.3,
)
BF16 = "bfloat16[4096,4096]@cuda"
FP32 = "float32[4096,4096]@cuda"


def identity(*, bytes_moved=None, flops=None, arguments=BF16, cache="cold"):
    workload = Workload(arguments=arguments, bytes_moved=bytes_moved, flops=flops)
    return Identity(timer="events", cache=cache, workload=workload)


def run(mean_us, half_width_us=0.0, clock_ghz=None):
    return RunRecord(
        trials=100,
        log_median=math.log(mean_us),
        mean_us=mean_us,
        sd_us=0.0,
        min_us=mean_us,
        p5_us=mean_us,
        p95_us=mean_us,
        half_width_us=half_width_us,
        clock_ghz=clock_ghz,
    )


def test_memory_bound_at_four_fifths():
    found = assess(run(125.0), identity(bytes_moved=4e8), CEILINGS)
    assert found.share == pytest.approx(0.8)
    assert (found.bound, found.ceiling, found.impossible) == ("memory", "4 TB/s copied", "")
    assert found.terabytes_per_second == pytest.approx(3.2)


def test_compute_bound_where_arithmetic_takes_longer_than_traffic():
    found = assess(run(200.0), identity(bytes_moved=1e8, flops=8e10), CEILINGS)
    assert (found.bound, found.ceiling) == ("compute", "800 TFLOP/s bf16")
    assert found.share == pytest.approx(0.5)
    assert found.teraflops_per_second == pytest.approx(400)


def test_memory_bound_where_traffic_takes_longer_than_arithmetic():
    found = assess(run(200.0), identity(bytes_moved=4e8, flops=4e10), CEILINGS)
    assert (found.bound, found.ceiling) == ("memory", "4 TB/s copied")
    assert found.share == pytest.approx(0.5)
    assert found.teraflops_per_second == pytest.approx(200)


@pytest.mark.parametrize(
    ("half_width_us", "accused"), [(0.0, True), (10.0, True), (70.0, False)], ids=["sure", "nearly sure", "unsure"]
)
@pytest.mark.parametrize(
    "stated", [{"bytes_moved": 1e9 + CACHE_BYTES}, {"flops": 2.2e11}], ids=["by memory", "by arithmetic"]
)
def test_a_mean_that_is_hardly_known_accuses_nobody(half_width_us, accused, stated):
    assert bool(assess(run(170.0, half_width_us), identity(**stated), CEILINGS).impossible) is accused


def test_the_share_has_the_means_interval():
    found = assess(run(100.0, half_width_us=10.0), identity(bytes_moved=2e8), CEILINGS)
    assert (found.share_low, found.share_high) == (pytest.approx(50 / 110), pytest.approx(50 / 90))


def test_without_ceilings_only_the_rates_are_told():
    found = assess(run(125.0), identity(bytes_moved=4e8), None)
    assert found.terabytes_per_second == pytest.approx(3.2)
    assert (found.share, found.bound, found.impossible) == (None, "", "")


def test_nothing_stated_is_nothing_told():
    found = assess(run(1e-3), identity(), CEILINGS)
    assert (found.share, found.impossible, found.terabytes_per_second) == (None, "", None)


@pytest.mark.parametrize(
    ("cache", "moved", "through"),
    [
        ("cold", CACHE_BYTES / 2, 0),
        ("cold", 2.5 * CACHE_BYTES, 1.5 * CACHE_BYTES),
        ("warm", 2 * CACHE_BYTES, 0),
        ("warm", 2.5 * CACHE_BYTES, 0.5 * CACHE_BYTES),
    ],
)
def test_what_the_cache_holds_need_not_pass_through_memory(cache, moved, through):
    assert bytes_through_memory(identity(bytes_moved=moved, cache=cache), CACHE_BYTES) == through


def test_of_an_unknown_cache_nothing_is_claimed():
    assert bytes_through_memory(identity(bytes_moved=1e12), None) == 0


def test_a_warm_call_that_fits_into_the_cache_is_not_accused_and_has_no_share():
    found = assess(run(1.0), identity(bytes_moved=1e8, cache="warm"), CEILINGS)
    assert (found.share, found.bound, found.impossible) == (None, "", "")


def test_a_cold_call_that_leaves_its_output_in_the_cache_is_not_accused():
    # 100 MB in the time of 60: the 40 MB written are still in the cache.
    assert assess(run(15.0), identity(bytes_moved=1e8), CEILINGS).impossible == ""


@pytest.mark.parametrize(("mean_us", "accused"), [(235.0, False), (170.0, True)])
def test_faster_than_memory_by_more_than_the_margin_is_impossible(mean_us, accused):
    found = assess(run(mean_us), identity(bytes_moved=1e9 + CACHE_BYTES), CEILINGS)
    assert bool(found.impossible) is accused
    assert not accused or "5.88 TB/s, where this machine copies 4 TB/s" in found.impossible


@pytest.mark.parametrize(("spread", "mean_us", "accused"), [(0.5, 170.0, False), (0.5, 140.0, True), (50, 140.0, True)])
def test_an_uncertain_ceiling_accuses_later_but_not_never(spread, mean_us, accused):
    wide = Ceilings(
        model="GPU", by="", bandwidth=Ceiling(per_s=4e12, spread=spread), cache_bytes=0, margin=1.1, clock_margin=1.3
    )
    assert bool(assess(run(mean_us), identity(bytes_moved=1e9), wide).impossible) is accused


@pytest.mark.parametrize(
    ("tflops", "clock_ghz", "accused"),
    [
        (860, 1.6, False),
        (900, 1.6, True),
        (900, 1.95, False),
        (860, 1.2, False),
        (900, 1.2, True),
        (1000, None, False),
        (1050, None, True),
    ],
)
def test_arithmetic_goes_with_the_clock(tflops, clock_ghz, accused):
    found = assess(run(100.0, clock_ghz=clock_ghz), identity(flops=tflops * 1e8), CEILINGS)
    assert bool(found.impossible) is accused


def test_fp32_tensors_may_be_computed_in_bf16():
    found = assess(run(100.0), identity(flops=7e10, arguments=FP32), CEILINGS)
    assert found.impossible == ""


@pytest.mark.parametrize(("setting", "share"), [("fp32", 0.8), ("tf32", 0.1)])
def test_fp32_is_held_against_what_torch_multiplies_it_in(setting, share):
    found = assess(run(100.0), identity(flops=4e9, arguments=FP32), CEILINGS, setting)
    assert found.share == pytest.approx(share)
    assert found.ceiling.endswith(setting)


@pytest.mark.parametrize("arguments", ["float8_e4m3fn[64,64]@cuda", "int8[64]@cuda, bfloat16[64]@cuda"])
def test_quicker_arithmetic_than_was_measured_is_never_accused(arguments):
    found = assess(run(1.0), identity(flops=1e12, arguments=arguments), CEILINGS)
    assert (found.share, found.impossible) == (None, "")


def test_fp64_has_no_ceiling_and_no_share():
    assert assess(run(1e6), identity(flops=1e12, arguments="float64[64]@cuda"), CEILINGS).share is None


def test_without_tensors_the_fastest_arithmetic_is_the_measure():
    assert assess(run(200.0), identity(flops=8e10, arguments="Linear"), CEILINGS).share == pytest.approx(0.5)


@pytest.mark.parametrize(("per_s", "said"), [(4.27e12, "4.27 TB/s"), (1e11, "0.1 TB/s"), (2.26e10, "22.6 GB/s")])
def test_speeds_have_a_unit_that_fits(per_s, said):
    assert speed(per_s, "B/s") == said
