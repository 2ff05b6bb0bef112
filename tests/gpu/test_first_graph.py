"""A process's first graph must read like later ones: fresh processes shuffle which benchmark has it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

ONE_AFTER_ANOTHER = """
import functools, json, math, torch
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.settings import BenchmarkSettings

backend = backend_for("cuda")
x = torch.randn(640, 640, device="cuda", dtype=torch.bfloat16)
plan = Plan(benchmark=BenchmarkId(node_id="test"), settings=BenchmarkSettings(timer="graph", max_time=0.1))
print(json.dumps([math.exp(measure(functools.partial(torch.matmul, x, x), plan, backend).record.log_median)
                  for _ in range(3)]))
"""


def test_the_first_graph_of_a_process_is_as_long_as_later_ones():
    done = subprocess.run([sys.executable, "-c", ONE_AFTER_ANOTHER], capture_output=True, text=True, check=True)
    first_us, *later_us = json.loads(done.stdout.splitlines()[-1])
    assert later_us == pytest.approx([first_us] * 2, rel=0.02)
