from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import pytest

from pytest_gpuperf.measure.errors import InterpreterTimedError
from pytest_gpuperf.measure.interpreter import interpreter_forbidden
from pytest_gpuperf.measure.measure import measure

INTERPRETED = """
import sys
import torch, triton
import triton.language as tl
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.errors import InterpreterTimedError
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.settings import BenchmarkSettings

@triton.jit
def double(x, n: tl.constexpr):
    at = tl.arange(0, n)
    tl.store(x + at, 2 * tl.load(x + at))

values = torch.ones(16)
plan = Plan(benchmark=BenchmarkId(node_id="test"), settings=BenchmarkSettings(trials=5))
try:
    measure(lambda: double[(1,)](values, 16), plan, backend_for("cpu"))
except InterpreterTimedError as error:
    print(error)
double[(1,)](values, 16)
print(values.tolist() == [2.0] * 16)
print(measure(lambda: sum(range(100)), plan, backend_for("cpu")).record.trials)
"""


@pytest.fixture
def interpreter(monkeypatch):
    module = ModuleType("triton.runtime.interpreter")

    class InterpretedFunction:
        def __init__(self, fn):
            self.fn = fn

        def run(self):
            return self.fn()

    module.InterpretedFunction = InterpretedFunction
    monkeypatch.setitem(sys.modules, "triton.runtime.interpreter", module)
    return module


def test_a_kernel_in_the_interpreter_is_refused_by_name(interpreter):
    def softmax_kernel():
        return 1

    kernel = interpreter.InterpretedFunction(softmax_kernel)
    refused = pytest.raises(InterpreterTimedError, match="`softmax_kernel` runs in Triton's interpreter")
    with refused, interpreter_forbidden():
        kernel.run()
    assert kernel.run() == 1


def test_measuring_refuses_it_on_any_device(interpreter, fake, plan):
    kernel = interpreter.InterpretedFunction(lambda: fake.clock.advance_us(5.0))
    with pytest.raises(InterpreterTimedError):
        measure(lambda: kernel.run(), plan(), fake)


def test_what_runs_no_kernel_is_none_of_its_business(interpreter):
    with interpreter_forbidden():
        assert sum(range(3)) == 3


def test_without_an_interpreter_nothing_is_imported():
    code = (
        "import sys\n"
        "from pytest_gpuperf.measure.interpreter import interpreter_forbidden\n"
        "with interpreter_forbidden(): pass\n"
        "print(sorted(m for m in sys.modules if m.startswith('triton')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_tritons_own_interpreter_is_recognised():
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], capture_output=True, text=True, check=False, env=environment
    )
    refused, *others = done.stdout.splitlines() or [done.stderr]
    assert "Triton kernel `double` runs in Triton's interpreter" in refused
    assert others == ["True", "5"]
