"""Without --gpuperf a benchmark is a correctness test: called once, verified, and nothing else."""

from __future__ import annotations

import ast

import pytest

WATCH = """
import sys

HEAVY = {"torch", "numpy", "scipy", "msgspec", "tabulate", "triton"}
seen = []


def watch(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.system", "os.fork", "os.exec"):
        seen.append(f"{event} {args[0]!r}")
    elif event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        seen.append(f"{event} {args[0]!r} {args[1]!r}")
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.symlink"):
        seen.append(f"{event} {args[0]!r}")


sys.addaudithook(watch)


def pytest_unconfigure():
    ours = [line for line in seen if "__pycache__" not in line and "/dev/null" not in line and "compiled" not in line]
    loaded = HEAVY & sys.modules.keys()
    stages = {name.split(".")[1] for name in sys.modules if name.startswith("pytest_gpuperf.")}
    sys.__stdout__.write(f"\\nSEEN {ours} LOADED {sorted(loaded)} STAGES {sorted(stages)}\\n")
"""


@pytest.fixture
def watched(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder in which a process is watched for what it opens, starts and imports."""
    pytester.makepyfile(watch=WATCH)
    pytester.makepyfile(
        """
        import pytest

        calls = []

        @pytest.mark.perf(min_effect=0.03)
        @pytest.mark.parametrize("n", [1, 2])
        def test_called(gpubench, n):
            assert gpubench(lambda x: calls.append(x) or x, n) == n
            assert calls == list(range(1, n + 1))
            assert gpubench.result is None
            assert gpubench.results == {}

        def test_run(gpubench):
            assert gpubench.run(max, (1, 2), {"key": lambda x: -x}, name="a", bytes_moved=3, flops=4) == 1
            assert gpubench.run(max, setup=lambda: ((3, 4), {}), name="b") == 4
        """
    )
    return pytester


@pytest.mark.parametrize(
    "arguments", [[], ["--collect-only"], ["--gpuperf-only"], ["--gpuperf-min-effect=0.1"]], ids=str
)
def test_nothing_is_imported_started_or_written(watched: pytest.Pytester, arguments: list[str], monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(watched.path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # what pytest itself compiles is not what is looked for
    options = (
        "-p",
        "watch",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:xdist",
    )
    result = watched.runpytest_subprocess(*options, "-s", *arguments)
    assert result.ret == 0
    (line,) = [line for line in result.outlines if line.startswith("SEEN")]
    nothing, stages = line.split(" STAGES ")
    assert nothing == "SEEN [] LOADED []"
    assert not {"measure", "checks", "compare", "store", "session", "report"} & set(ast.literal_eval(stages))


def test_the_reference_is_verified(suite) -> None:
    suite.write(
        "test_wrong.py",
        "def test_wrong(gpubench, work):\n"
        "    gpubench.run(work, ['a'], reference=lambda name: 'b')\n"
        "def test_right(gpubench, work):\n"
        "    gpubench.run(work, ['a'], reference=lambda name: 'a')\n",
    )
    for arguments in ((), ("--gpuperf",)):
        result = suite.run("test_wrong.py", *arguments)
        assert result.ret == 1
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(
            ["E *AssertionError: *differs from the reference's*", "FAILED test_wrong.py::test_wrong - *"]
        )


def test_styles_of_tests(suite) -> None:
    suite.write(
        "test_styles.py",
        """
import unittest

import pytest

from pytest_gpuperf import perf


class TestClass:
    @pytest.fixture(autouse=True)
    def prepare(self, gpubench, work):
        self.bench, self.work = gpubench, work

    @perf(trials=20)
    def test_method(self):
        assert self.bench(self.work, "a") == "a"


@pytest.fixture(scope="module", params=["x", "y"])
def module_data(request):
    return request.param


@pytest.fixture(scope="session")
def session_data():
    return "s"


def test_scopes(gpubench, work, module_data, session_data):
    gpubench(work, module_data + session_data)


async def test_async():
    raise AssertionError("never awaited here")


async def test_async_bench(gpubench):
    raise AssertionError("never awaited here")


class TestUnit(unittest.TestCase):
    def test_unit(self):
        pass


pytestmark = [pytest.mark.filterwarnings("ignore"), perf(min_effect=0.5)]
""",
    )
    plain = suite.run("test_styles.py")
    measured = suite.gate("test_styles.py", "--gpuperf-json=out.json")
    assert plain.parseoutcomes() == measured.parseoutcomes()
    assert sorted(suite.verdicts_in("out.json")) == [
        "test_styles.py::TestClass::test_method",
        "test_styles.py::test_scopes[x]",
        "test_styles.py::test_scopes[y]",
    ]
    by_id = {o["benchmark"]["node_id"]: o for o in suite.json("out.json")["outcomes"]}
    assert by_id["test_styles.py::TestClass::test_method"]["runs"][0]["trials"] == 20


@pytest.mark.parametrize("arguments", [(), ("--gpuperf",)])
def test_coroutines_and_generators_are_refused(suite, arguments: tuple[str, ...]) -> None:
    suite.write(
        "test_lazy.py",
        "async def coroutine(): pass\ndef generator(): yield\n"
        "def test_coroutine(gpubench): gpubench(coroutine)\ndef test_generator(gpubench): gpubench(generator)\n",
    )
    result = suite.run("test_lazy.py", *arguments)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["E *TypeError: test_lazy.py::test_coroutine: calling coroutine only creates a coroutine*"]
    )


LATE = """
import pytest

KEPT = []


@pytest.fixture
def bench_of(request):
    return request.getfixturevalue("gpubench")


def test_late(bench_of, work):
    bench_of(work, "late")


@pytest.mark.perf
def test_late_but_marked(bench_of, work):
    bench_of(work, "marked")


def test_keeps(gpubench, work):
    KEPT.append(gpubench)
    gpubench(work, "kept")


def test_uses_what_another_test_kept(work):
    KEPT[0].run(work, ("stolen",), name="stolen")
"""


@pytest.mark.parametrize("arguments", [(), ("--gpuperf", "--gpuperf-json=out.json")])
def test_no_call_is_lost_that_no_gate_would_see(suite, told, arguments: tuple[str, ...]) -> None:
    suite.write("test_late.py", LATE)
    suite.write("text.txt", '>>> getfixture("gpubench")(len, "a")\n1\n')
    result = suite.run("test_late.py", "text.txt", *arguments)
    result.assert_outcomes(passed=2, failed=2, errors=1)
    assert "test_late.py::test_late: gpubench was asked for while the test runs" in told(result)
    assert "text.txt::text.txt: gpubench was asked for while the test runs" in told(result)
    assert "test_late.py::test_keeps: gpubench was called after this test had ended" in told(result)
    if arguments:
        assert set(suite.verdicts_in("out.json")) == {
            "test_late.py::test_late_but_marked",
            "test_late.py::test_keeps",
        }


def test_the_device_is_known_in_both_kinds_of_session(suite) -> None:
    suite.write(
        "test_device.py",
        "def test_device(gpubench, work):\n    assert gpubench.device == 'cpu'\n    gpubench(work, 'a')\n",
    )
    assert suite.run("test_device.py").ret == 0
    assert suite.gate("test_device.py").ret == 0


def test_results_are_there_for_the_test_itself(suite) -> None:
    suite.write(
        "test_results.py",
        """
def test_results(gpubench, work):
    gpubench.run(work, ["a"], bytes_moved=1e6, flops=2e6)
    result = gpubench.result
    assert gpubench.results == {"": result}
    assert 95 < result.mean_us < 105
    assert result.min_us <= result.p5_us <= result.median_us <= result.p95_us
    assert result.std_us >= 0 and result.half_width_us > 0
    assert result.trials == len(result.raw.times_us) >= 20
    assert result.runs == 1
    assert result.timer.startswith("events")
    assert 0.009 < result.terabytes_per_second < 0.011
    assert 0.019 < result.teraflops_per_second < 0.021
""",
    )
    assert suite.gate("test_results.py").ret == 0
