"""What benchmarks/kernel_tables.py makes of times: ratios, rates, targets and text."""

from __future__ import annotations

import math

import pytest


@pytest.fixture(scope="module")
def tables(script_module):
    return script_module("kernel_tables")


def softmax_row(problem, of_copy=1.0, torch=1.5, compiled=1.2):
    return {"problem": problem, "of copy": of_copy, "× torch": torch, "× compiled": compiled}


def found(tables, results, what):
    return next(target for target in tables.targets(results) if target.what == what)


def test_ratios_say_how_many_times_as_fast(tables):
    row = {"problem": "p", "copy": 9.0, "torch": 20.0, "compiled": 5.0, "triton": 10.0}
    assert tables.with_ratios(row, ("triton",), ("torch", "compiled", "absent")) == {
        **row,
        "of copy": 0.9,
        "× torch": 2.0,
        "× compiled": 0.5,
    }


def test_ratios_of_several_kernels_are_told_apart(tables):
    row = tables.with_ratios({"copy": 8.0, "torch": 20.0, "triton": 10.0, "cuda": 16.0}, ("triton", "cuda"), ("torch",))
    assert (row["triton of copy"], row["cuda of copy"]) == (0.8, 0.5)
    assert (row["triton × torch"], row["cuda × torch"]) == (2.0, 1.25)


def test_a_rival_that_refused_has_no_ratio(tables):
    row = tables.with_ratios({"flash": math.nan, "triton": 10.0}, ("triton",), ("flash",))
    assert math.isnan(row["× flash"])


@pytest.mark.parametrize(
    ("problem", "share"),
    [("forward", 1.0), ("causal forward", 0.5), ("backward", 2.5), ("causal backward", 1.25)],
)
def test_operations_of_attention(tables, problem, share):
    assert tables.attention_flops(f"2×3×100×64 {problem}") == 4 * 2 * 3 * 100 * 100 * 64 * share


def test_rates_are_operations_a_second(tables):
    row = tables.with_rates({"problem": "1×1×1000×250 forward", "flash": 10.0}, ["flash"])
    assert row["flash TFLOP/s"] == pytest.approx(100.0)


@pytest.mark.parametrize(("measured", "verdict"), [(1.12, "met"), (1.1199, "missed"), (math.nan, "not measured")])
def test_a_target_is_judged_by_the_unrounded_figure(tables, measured, verdict):
    assert tables.Target("t", measured, 1.12).verdict == verdict


def test_a_figure_without_a_bound_is_only_told(tables):
    assert tables.Target("t", 0.5).verdict == ""


def test_nothing_measured_leaves_every_target_open(tables):
    assert {target.verdict for target in tables.targets({})} == {"not measured"}


def test_gelu_targets_read_their_rows(tables):
    rows = [{"problem": "tanh bfloat16", "triton of copy": 0.99, "triton × torch": 1.1, "cuda of copy": 0.97}]
    verdicts = {target.what: target.verdict for target in tables.targets({"gelu": rows})}
    assert verdicts["GeLU tanh bfloat16, triton: of a copy"] == "met"
    assert verdicts["GeLU tanh bfloat16, triton: × torch"] == "missed"
    assert verdicts["GeLU tanh bfloat16, cuda: of a copy"] == "missed"
    assert verdicts["GeLU tanh float32, cuda: of a copy"] == "not measured"


def test_each_width_of_softmax_has_its_share_of_a_copy(tables):
    rows = [softmax_row("4096×4096", 0.97), softmax_row("4096×8192", 0.95), softmax_row("512×131072", 0.76)]
    verdicts = {target.what: target.verdict for target in tables.targets({"softmax": rows})}
    assert verdicts["softmax float32 4096×4096: of a copy"] == "met"
    assert verdicts["softmax float32 4096×8192: of a copy"] == "missed"
    assert verdicts["softmax float32 512×131072: of a copy"] == "met"
    assert verdicts["softmax float32 65536×256: of a copy"] == "not measured"


def test_the_widest_softmax_is_held_to_the_faster_rival(tables):
    row = softmax_row("64×1048576", compiled=1.4)
    target = found(tables, {"softmax": [row]}, "softmax float32 64×1048576: × the faster of torch and compiled")
    assert (target.measured, target.verdict) == (1.4, "missed")


def test_forward_is_held_to_both_rivals(tables):
    rows = [{"problem": "4×16×8192×64 causal forward", "× flash": 1.41, "× cudnn": 0.89}]
    verdicts = {target.what: target.verdict for target in tables.targets({"attention": rows})}
    assert verdicts["attention forward 4×16×8192×64 causal: × flash"] == "met"
    assert verdicts["attention forward 4×16×8192×64 causal: × cuDNN"] == "missed"


def test_one_slower_shape_misses_the_target_for_all(tables):
    rows = [softmax_row("a"), softmax_row("b", compiled=0.99), softmax_row("c")]
    target = found(tables, {"softmax": rows}, "softmax float32, everywhere: × compiled")
    assert (target.measured, target.where, target.verdict) == (0.99, "least at b", "missed")
    assert found(tables, {"softmax": rows}, "softmax float32, everywhere: × torch").verdict == "met"


def test_a_row_that_could_not_be_timed_misses(tables):
    rows = [{"problem": "x forward", "× flash": 2.0}, {"problem": "y forward", "× flash": math.nan}]
    target = found(tables, {"general": rows}, "attention forward, general shapes and layouts: × flash")
    assert (target.measured, target.verdict) == (0.0, "missed")


def test_general_targets_keep_directions_apart(tables):
    rows = [{"problem": "x forward", "× flash": 2.0}, {"problem": "x backward", "× flash": 0.9}]
    prefix, suffix = "attention", "general shapes and layouts: × flash"
    assert found(tables, {"general": rows}, f"{prefix} forward, {suffix}").verdict == "met"
    assert found(tables, {"general": rows}, f"{prefix} backward, {suffix}").verdict == "missed"


def test_backward_is_held_to_its_slowest_row(tables):
    rows = [
        {"problem": "1×1×1×1 forward", "× flash": 1.0},
        {"problem": "1×1×1×1 backward", "× flash": 1.2},
        {"problem": "2×1×1×1 causal backward", "× flash": 1.14},
    ]
    target = found(tables, {"attention": rows}, "attention backward, everywhere: × flash")
    assert (target.measured, target.verdict) == (1.14, "missed")


def test_tables_as_text(tables):
    rows = [
        {"problem": "2×3", "copy": 35.04, "of copy": 0.9876, "× torch": 1.2345, "x TFLOP/s": 512.3, "x error": 5.6e-7},
        {"problem": "more", "copy": math.nan, "launched": 3},
    ]
    text = tables.markdown({"softmax": rows}, {"device": "a card", "torch": "2"}, ["A note.\n"])
    assert "device a card, torch 2" in text
    assert "A note." in text
    first, second = (
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith(("| 2×3", "| more"))
    )
    assert first == ["2×3", "35.0", "98.8 %", "1.234", "512", "5.6e-07", ""]
    assert second == ["more", "–", "", "", "", "", "3"]
    assert text.index("## Softmax") < text.index("## Targets")


def test_tables_that_no_target_speaks_of_come_without_targets(tables):
    text = tables.markdown({"launched": [{"operation": "softmax", "torch": 1}]}, {}, [])
    assert "## Kernels launched" in text
    assert "## Targets" not in text
