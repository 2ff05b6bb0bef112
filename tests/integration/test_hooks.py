"""A conftest.py can extend every step: the hooks of hookspecs.py do what they say."""

from __future__ import annotations

import pytest

OTHER = "test_suite.py::test_other"


def test_machine_info_is_recorded_and_decides_nothing(suite) -> None:
    suite.add(
        "conftest.py",
        "\ndef pytest_gpuperf_machine_info(config, machine):\n    return {'rack': machine.model + ' 7'}\n",
    )
    suite.gate(OTHER, "--gpuperf-json=out.json")
    content = suite.json("out.json")
    assert content["info"]["machine"]["extra"] == {"rack": "Fake GPU 7"}
    assert suite.verdicts_in("out.json") == {OTHER: "unchanged"}


def test_a_verdict_can_be_let_pass_or_failed(suite) -> None:
    suite.add(
        "conftest.py",
        "\ndef pytest_gpuperf_verdict(config, outcome):\n"
        "    return {'op1': False, 'op2': True}.get(outcome.benchmark.node_id[-4:-1])\n",
    )
    suite.times(op1=130.0, op3=130.0)
    result = suite.gate("-k", "op1 or op2 or op3 or op4")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "FAILED test_suite.py::test_op[[]op2[]] - unchanged: *",
            "FAILED test_suite.py::test_op[[]op3[]] - slower by *",
        ],
    )
    result.assert_outcomes(passed=2, failed=2, deselected=8)


def test_finished_benchmarks_are_announced_once_with_their_final_verdict(suite) -> None:
    suite.add(
        "conftest.py",
        "\ndef pytest_gpuperf_benchmark_finished(config, outcome):\n"
        "    with (HERE / 'finished').open('a') as file:\n"
        "        file.write(f'{outcome.benchmark.label} {outcome.decision.verdict} {len(outcome.runs)}\\n')\n",
    )
    suite.replace("test_suite.py", "range(10)", "range(9)")
    suite.times(other=130.0)
    suite.gate()
    lines = (suite.path / "finished").read_text().splitlines()
    assert len(lines) == 11
    assert f"{OTHER} regressed 5" in lines
    assert "test_suite.py::test_op[op9] missing 0" in lines


def test_lines_can_be_added_to_the_report(suite) -> None:
    suite.add(
        "conftest.py",
        "\ndef pytest_gpuperf_report_section(config, outcomes):\n    return [f'{len(outcomes)} things', 'and more']\n",
    )
    suite.gate(OTHER).stdout.fnmatch_lines(["1 things", "and more"])


STORAGE = '''
import contextlib


class Memory:
    """Keeps files in one JSON file, wherever it was asked to."""

    def __init__(self, location):
        self.path = HERE / "memory.json"
        self.location = location

    def _all(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def read(self, place):
        text = self._all().get(place)
        return None if text is None else text.encode()

    def write(self, place, data):
        self.path.write_text(json.dumps({**self._all(), place: data.decode()}))

    def locked(self, place):
        return contextlib.nullcontext()

    def names(self, folder):
        return tuple(sorted({p[len(folder) + 1:].split("/")[0] for p in self._all() if p.startswith(folder + "/")}))

    def describe(self, place):
        return f"{self.location}!{place}"


def pytest_gpuperf_make_storage(config, location):
    return Memory(location) if location.startswith("memory:") else None
'''


def test_storage_can_be_replaced(new_suite, told) -> None:
    new_suite.add("conftest.py", STORAGE)
    where = "--gpuperf-storage=memory://x"
    assert new_suite.run("--gpuperf-save-baseline", "--gpuperf-runs=5", where, "-k", "other or op1").ret == 0
    assert not new_suite.storage.exists()
    assert "baselines/Fake-GPU/main.json" in new_suite.json("memory.json")
    result = new_suite.gate(where, "-k", "other or op1")
    assert "2 measured = 2 in the baseline + 0 new" in told(result)
    (new_suite.path / "memory.json").write_text(
        (new_suite.path / "memory.json").read_text().replace("pytest-gpuperf baseline", "something else")
    )
    broken = new_suite.gate(where, OTHER)
    assert broken.ret == 4
    assert "memory://x!baselines/Fake-GPU/main.json: is not a pytest-gpuperf baseline" in told(broken)


TIMER = """
from pytest_gpuperf.measure.batch import Batch


class Constant:
    kind = "constant"
    cache = "warm"
    floor_us = 0.0

    def describe(self):
        return "constant, 7 us"

    def prepare(self, target):
        target.bind()()

    def batch(self, target, trials):
        target.bind()()
        backend.clock.now_us += 1000.0
        return Batch(times_us=(7.0,) * trials, work_us=7.0 * trials)


def pytest_gpuperf_make_timer(config, backend, settings):
    return Constant() if MINE else None
"""


def test_a_timer_can_be_replaced(suite, told) -> None:
    suite.add("conftest.py", TIMER.replace("MINE", "True"))
    result = suite.gate(OTHER, "--gpuperf-json=out.json")
    assert "incomparable" in told(result)
    assert "timer: events, scripted in the baseline, now constant, 7 us" in told(result)
    assert suite.json("out.json")["outcomes"][0]["runs"][0]["mean_us"] == 7.0
    assert suite.run(OTHER, "--gpuperf-save-baseline", "--gpuperf-runs=5").ret == 0
    assert suite.verdicts(OTHER) == {OTHER: "unchanged"}


def test_a_timer_that_is_gone_makes_results_incomparable(suite, told) -> None:
    suite.add("conftest.py", TIMER.replace("MINE", "(HERE / 'mine').exists()"))
    (suite.path / "mine").touch()
    assert suite.run(OTHER, "--gpuperf-save-baseline", "--gpuperf-runs=5").ret == 0
    (suite.path / "mine").unlink()
    result = suite.gate(OTHER)
    assert result.ret == 0
    assert "timer: constant, 7 us in the baseline, now events, scripted" in told(result)


def test_wrong_hooks_are_refused_by_pytest(suite) -> None:
    suite.add("conftest.py", "\ndef pytest_gpuperf_verdict(config, nonsense):\n    pass\n")
    assert suite.run().ret != 0


@pytest.mark.parametrize("hook", ["machine_info", "report_section"])
def test_hooks_may_have_nothing_to_say(suite, hook: str) -> None:
    suite.add("conftest.py", f"\ndef pytest_gpuperf_{hook}():\n    return None\n")
    assert suite.gate(OTHER).ret == 0
