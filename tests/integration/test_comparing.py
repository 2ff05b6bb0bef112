"""Implementations beside each other and sweeps over sizes, in plain sessions, gates and fresh processes."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

COMPARISON = """
import pytest
from conftest import backend

def timed(time_us, held_bytes=0):
    def call(x):
        backend.clock.advance_us(time_us)
        backend.clock.allocate(held_bytes)
        calls.append(time_us)
        return 2.0 * x
    return call

calls = []
"""


@pytest.fixture
def comparing(new_suite: Any) -> Any:
    """Return what writes a suite of one test."""
    conftest = (new_suite.path / "conftest.py").read_text()
    steady = conftest.replace("CountingBackend(model", "CountingBackend(between_run_sd=0.001, model")
    assert steady != conftest
    new_suite.write("conftest.py", steady)
    new_suite.write("pytest.ini", "[pytest]\npythonpath = .\n")

    def write(body: str) -> Any:
        new_suite.write("test_suite.py", COMPARISON + textwrap.dedent(body))
        return new_suite

    return write


FASTER = """
def test_compare(gpubench):
    implementations = {"torch": timed(60.0, 4000), "triton": timed(40.0, 9000)}
    comparison = gpubench.compare(implementations, (1.0,), reference=timed(1.0))
    comparison.assert_faster("triton", than="torch", by=1.4)
    if not comparison.results:
        assert comparison.ratio("triton", to="torch") is None
        assert comparison.pareto() == ("torch", "triton")
        assert calls == [1.0, 60.0, 40.0]
    else:
        assert 0.65 < comparison.ratio("triton", to="torch").ratio < 0.68
        assert comparison.pareto() == ("torch", "triton")
        assert comparison.results["triton"].peak_memory_bytes == 9000
        assert set(gpubench.results) == {"torch", "triton"}
        assert "-33." in comparison.table()
    assert comparison.errors == {"torch": 0.0, "triton": 0.0}
"""


@pytest.mark.parametrize("options", [(), ("--gpuperf",)])
def test_a_comparison(comparing: Any, options: tuple[str, ...]) -> None:
    comparing(FASTER).run(*options).assert_outcomes(passed=1)


def test_what_is_not_faster_fails_with_the_figures(comparing: Any) -> None:
    suite = comparing(
        """
        def test_compare(gpubench):
            comparison = gpubench.compare({"torch": timed(60.0), "triton": timed(50.0)}, (1.0,))
            comparison.assert_faster("triton", than="torch", by=1.3)
        """
    )
    suite.run().assert_outcomes(passed=1)
    result = suite.run("--gpuperf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *triton is not shown to be 1.3 times as fast as torch: it is 1.2 times as fast *"])
    assert "def assert_faster" not in result.stdout.str()


def test_a_wrong_implementation_is_named_before_anything_is_timed(comparing: Any) -> None:
    suite = comparing(
        """
        def test_compare(gpubench):
            gpubench.compare({"torch": timed(60.0), "triton": lambda x: 3.0 * x}, (1.0,))
        """
    )
    for options in ((), ("--gpuperf",)):
        result = suite.run(*options)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            ["E *triton (the first implementation, torch, is the reference): output differs *3.0 instead of 2.0*"]
        )


def test_each_implementation_is_stored_and_gated_by_its_name(comparing: Any) -> None:
    suite = comparing(
        """
        import json, pathlib

        times = json.loads((pathlib.Path(__file__).parent / "times.json").read_text())

        @pytest.mark.parametrize("case", range(5))
        def test_compare(gpubench, case):
            slow = times.get("triton", 40.0) if case == 0 else 40.0
            comparison = gpubench.compare({"torch": timed(60.0), "triton": timed(slow)}, (1.0,))
        """
    )
    suite.run("--gpuperf-save-baseline").assert_outcomes(passed=5)
    entries = suite.entries()
    assert len(entries) == 10
    entry = entries["test_suite.py::test_compare[0] (triton)"]
    assert len(entry.runs) == 10
    assert entry.identity.timer == "events, scripted"
    suite.times(triton=55.0)
    result = suite.gate("--gpuperf-json=verdicts.json")
    result.assert_outcomes(failed=1, passed=4)
    verdicts = suite.verdicts_in("verdicts.json")
    regressed = [name for name, verdict in verdicts.items() if verdict == "regressed"]
    assert regressed == ["test_suite.py::test_compare[0]triton"]


def test_claims_are_held_to_the_sessions_own_run(comparing: Any) -> None:
    suite = comparing(
        """
        import os

        started = os.environ.setdefault("SUITE_STARTED_IN", str(os.getpid()))

        def test_compare(gpubench):
            in_session = started == str(os.getpid())
            comparison = gpubench.compare({"torch": timed(60.0), "triton": timed(40.0 if in_session else 90.0)}, (1.0,))
            assert comparison.binding == in_session
            comparison.assert_faster("triton", than="torch")
        """
    )
    result = suite.process("--gpuperf-save-baseline")
    result.assert_outcomes(passed=1)
    runs = suite.entries()["test_suite.py::test_compare (triton)"].runs
    assert sorted(round(run.mean_us / 10) for run in runs)[-1] == 9


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("compare({'a': abs}, (1.0,))", "ValueError: *needs two implementations or more"),
        ("compare({'a': abs, '': abs}, (1.0,))", "TypeError: *name must be a non-empty text, not ''"),
        ("compare({'a': abs, 'b': 3}, (1.0,))", "TypeError: *needs a function to call, not int"),
        ("compare({'a': abs, 'b': abs}, (1.0,), error=max)", "TypeError: *give reference= too"),
        ("compare({'a': abs, 'b': abs}, (1.0,), mode='back')", "ValueError: *mode must be forward, backward or both*"),
        ("compare({'a': abs, 'b': abs}, (1.0,)).ratio('c', to='a')", "ValueError: no implementation 'c' was compared*"),
        ("compare({'a': abs, 'b': abs}, (1.0,)).assert_faster('a', than='b', by=0)", "ValueError: by must be *"),
        ("sweep(lambda n: (abs, (n,)), [4])", "ValueError: an exponent needs two sizes"),
        ("sweep(lambda n: (abs, (n,)), [4, 4])", "ValueError: every size must be given once"),
        ("sweep(lambda n: (abs, (n,)), [4, -4])", "ValueError: sizes must be positive numbers, not -4"),
        ("sweep(lambda n: (abs, (n,)), [4, '8'])", "ValueError: sizes must be positive numbers, not '8'"),
        ("sweep(lambda n: (abs, (n,)), [4, 8], fit_from=6)", "ValueError: an exponent needs two sizes of at least 6"),
        ("sweep(lambda n: n, [4, 8])", "TypeError: *make must return a callable, (fn, args) or *; it returned int"),
        ("sweep(lambda n: (abs, (n,)), [4, 8]).assert_scaling(1.0, tolerance=0)", "ValueError: exponent must be *"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--gpuperf",)])
def test_mistakes_are_errors_whether_or_not_it_is_measured(
    comparing: Any, options: tuple[str, ...], call: str, error: str
) -> None:
    result = comparing(f"def test_it(gpubench):\n    gpubench.{call.replace('abs', 'timed(5.0)')}\n").run(*options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E *{error}"])


SWEEP = """
def make(size):
    return timed(10.0 * size, 64 * size * size), (1.0,)

def test_sweep(gpubench):
    sweep = gpubench.sweep(make, [16, 32, 64, 128])
    sweep.assert_scaling(1.0, tolerance=0.05)
    sweep.assert_memory_scaling(2.0, tolerance=0.01)
    if not sweep.points:
        assert sweep.exponent is sweep.interval is sweep.memory_exponent is None
        assert calls == [160.0, 320.0, 640.0, 1280.0]
    else:
        assert 0.99 < sweep.interval[0] < sweep.exponent < sweep.interval[1] < 1.01
        assert sweep.memory_exponent == pytest.approx(2.0)
        assert [point.size for point in sweep.points] == [16, 32, 64, 128]
        assert set(gpubench.results) == {"16", "32", "64", "128"}
        assert "time ~ size^" in sweep.table()
"""


@pytest.mark.parametrize("options", [(), ("--gpuperf",)])
def test_a_sweep(comparing: Any, options: tuple[str, ...]) -> None:
    comparing(SWEEP).run(*options).assert_outcomes(passed=1)


def test_each_size_is_stored_by_its_name(comparing: Any) -> None:
    suite = comparing(SWEEP)
    suite.run("--gpuperf-save-baseline").assert_outcomes(passed=1)
    assert list(suite.entries()) == [f"test_suite.py::test_sweep ({size})" for size in (128, 16, 32, 64)]


LAUNCH_BOUND = """
def make(size):
    def call():
        backend.clock.advance_us(20.0 + size)
        backend.clock.advance_host_us(50.0)
    return call

def test_sweep(gpubench):
    gpubench.sweep(make, [1, 2, 4, 1000, 2000, 4000], fit_from={fit_from}).assert_scaling(1.0)
"""


def test_launch_bound_sizes_are_named(comparing: Any) -> None:
    result = comparing(LAUNCH_BOUND.replace("{fit_from}", "None")).run("--gpuperf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *time goes with size^0.* over 6 sizes, not with size^(1 ± 0.1)",
            "E *launch-bound or at the timer's floor: 1, 2, 4; leave such sizes out of the fit (fit_from=)",
        ]
    )


def test_the_fit_can_start_at_a_size(comparing: Any) -> None:
    comparing(LAUNCH_BOUND.replace("{fit_from}", "1000")).run("--gpuperf").assert_outcomes(passed=1)


def test_only_who_changes_the_process_is_told_of_it(comparing: Any) -> None:
    suite = comparing(
        """
        import gc

        def test_it(gpubench):
            def careless(x):
                gc.disable()
                return timed(5.0)(x)

            gpubench.compare({"a": timed(5.0), "careless": careless, "b": timed(5.0)}, (1.0,))
            gc.enable()
            found = {name: [finding.check for finding in one.findings] for name, one in gpubench.results.items()}
            assert found == {"a": [], "careless": ["state"], "b": []}
        """
    )
    suite.run("--gpuperf").assert_outcomes(passed=1)
