"""What benchmarks/precision_tables.py says of spreads: their ratios' p, and the stored record's tables."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from statistics import stdev

import pytest
from scipy.stats import t

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
STEADY = [10.0, 10.1, 9.9, 10.05, 9.95, 10.1, 9.9, 10.0]
WILD = [10.0, 13.0, 9.0, 7.5, 12.0, 10.5, 8.0, 11.0]


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("precision_tables", BENCHMARKS / "precision_tables.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["precision_tables"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["precision_tables"]


def processes(wall, do_bench):
    return [{"k": {"wall": one, "do_bench": other}} for one, other in zip(wall, do_bench, strict=True)]


def pitman_morgan(one, other):
    """By the ratio of the variances and the correlation of the values, as Pitman gives it."""
    a, b = ([math.log(value) for value in values] for values in (one, other))
    n, mean_a, mean_b = len(a), sum(a) / len(a), sum(b) / len(b)
    r = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / ((n - 1) * stdev(a) * stdev(b))
    ratio = stdev(b) / stdev(a)
    statistic = (ratio - 1 / ratio) * math.sqrt(n - 2) / (2 * math.sqrt(1 - r * r))
    return t.sf(statistic, n - 2)


@pytest.mark.parametrize(("one", "other"), [(STEADY, WILD), (WILD, STEADY), (STEADY, STEADY[::-1])])
def test_a_smaller_spread_has_the_p_of_pitman_and_morgan(tables, one, other):
    assert tables.p_no_less(processes(one, other), "k", "wall", "do_bench") == pytest.approx(pitman_morgan(one, other))


def test_the_smaller_spread_is_told_and_the_larger_is_not(tables):
    both = processes(STEADY, WILD)
    assert tables.p_no_less(both, "k", "wall", "do_bench") < 0.001
    assert tables.p_no_less(both, "k", "do_bench", "wall") > 0.999


def test_a_process_that_lacks_one_of_the_two_is_left_out_of_both(tables):
    whole, failed = processes(STEADY, WILD), {"k": {"wall": 500.0, "do_bench": {"failed": "out of memory"}}}
    p = tables.p_no_less(whole, "k", "wall", "do_bench")
    assert tables.p_no_less([failed, *whole, {}, {"k": {"do_bench": 0.01}}], "k", "wall", "do_bench") == p


def test_two_processes_give_no_p(tables):
    assert math.isnan(tables.p_no_less(processes(STEADY[:2], WILD[:2]), "k", "wall", "do_bench"))


def test_the_stored_tables_are_those_of_the_stored_record(tables):
    record = json.loads((BENCHMARKS / "results" / "precision_h200.json").read_text())
    stored = (BENCHMARKS / "results" / "precision_h200.txt").read_text()
    assert tables.report(record) + "\n" == stored
    [less] = [line for line in stored.splitlines() if "has less" in line]
    assert less.endswith("(0.11 % against 0.14 %; p = 0.17)")
