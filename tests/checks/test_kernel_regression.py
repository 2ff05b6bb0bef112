"""A planted regression names the kernels that changed: from the profile of a call to the failed test's message."""

from __future__ import annotations

import json
import subprocess

import pytest

# A run inside this process forgets what it imported; some modules cannot be imported twice.
for module in ("scipy.special", "scipy.stats", "torch"):
    pytest.importorskip(module)

CONFTEST = """
import json
import pathlib

from pytest_gpuperf.checks import inspection, recording
from pytest_gpuperf.checks.launches import Launch, Observed
from pytest_gpuperf.checks.waits import Waits
from pytest_gpuperf.checks import evidence
from pytest_gpuperf.measure.backends.fake import FakeBackend

HERE = pathlib.Path(__file__).parent
backend = FakeBackend()
role = "own"


class Watcher:
    sees_kernels = True
    call_s = 0.0

    def watch(self, call):
        scripted = json.loads((HERE / "kernels.json").read_text())
        names = scripted if isinstance(scripted, list) else scripted[role]
        launches = tuple(Launch(name=name, start_us=10.0 * i, duration_us=10.0) for i, name in enumerate(names))
        return Observed(output=call(), launches=launches)

    def synchronize(self):
        pass

    warm_up = synchronize


def pytest_gpuperf_make_backend(config, device):
    return backend


def pytest_configure(config):
    global role
    role = "fresh" if config.getoption("gpuperf_fresh_worker") else "own"
    inspection.watcher_for = recording.watcher_for = lambda device, torch: Watcher()
    evidence.cuda_waits = lambda torch, call: Waits()
"""
SUITE = """
import conftest


def test_gelu(gpubench):
    gpubench(conftest.backend.clock.advance_us, 100.0)
"""


FUSED = ["triton_poi_fused_add_gelu_0", "gemm_tile64x64"]
UNFUSED = ["direct_copy_kernel", "add_kernel", "gelu_kernel", "gemm_tile128x64"]
CHANGES = "kernels changed: −triton_poi_fused_add_gelu_0, +direct_copy_kernel, +add_kernel, +gelu_kernel"
RESPECIALISED = "gemm_tile64x64 → gemm_tile128x64"
QUICK = ("-p", "no:randomly", "-p", "no:cacheprovider", "--gpuperf-fresh-start=interpreter")
SAVE = (*QUICK, "--gpuperf-save-baseline", "--gpuperf-runs=5")
GATE = (*QUICK, "--gpuperf", "--gpuperf-confirm-runs=4", "--gpuperf-json=out.json")

pytestmark = pytest.mark.slow


class Suite:
    """One benchmark, whose kernels a file lists: for all processes alike, or for own and fresh ones apart."""

    def __init__(self, pytester):
        self._pytester = pytester
        self.path = pytester.path
        pytester.makepyfile(conftest=CONFTEST, test_suite=SUITE)
        pytester.makeini("[pytest]")

    def kernels(self, names):
        (self.path / "kernels.json").write_text(json.dumps(names))

    def run(self, *arguments):
        result = self._pytester.runpytest_inprocess(*arguments)
        return result, " ".join(result.stdout.str().split())

    def lists(self):
        """The lists of the last session's runs, in order, with whether each run was fresh."""
        (outcome,) = json.loads((self.path / "out.json").read_text())["outcomes"]
        lists = outcome.get("kernel_lists", [])
        return [
            (run.get("fresh", False), lists[run["kernels"]] if "kernels" in run else None) for run in outcome["runs"]
        ]


@pytest.fixture
def suite(pytester, monkeypatch):
    from pytest_gpuperf.checks import evidence, inspection, recording

    monkeypatch.setattr(inspection, "watcher_for", inspection.watcher_for)
    monkeypatch.setattr(recording, "watcher_for", recording.watcher_for)
    monkeypatch.setattr(evidence, "cuda_waits", evidence.cuda_waits)
    return Suite(pytester)


def test_the_failure_says_which_kernels_came_and_went(suite):
    suite.kernels(FUSED)
    suite.run(*SAVE)[0].assert_outcomes(passed=1)
    suite.kernels(UNFUSED)
    result, output = suite.run(*GATE)
    result.assert_outcomes(failed=1)
    assert "one call launches 4 kernels instead of 2" in output
    assert CHANGES in output
    assert RESPECIALISED in output


def test_the_first_fresh_process_of_each_side_records_them(suite):
    suite.kernels(FUSED)
    suite.run(*SAVE, "--gpuperf-json=out.json")
    assert suite.lists() == [(False, FUSED), (True, FUSED), *[(True, None)] * 3]
    suite.kernels(UNFUSED)
    suite.run(*GATE)
    assert suite.lists() == [(False, UNFUSED), (True, UNFUSED), *[(True, None)] * 3]


def test_kernels_that_only_the_sessions_own_process_launches_clear_up(suite):
    suite.kernels(FUSED)
    suite.run(*SAVE)
    suite.kernels({"own": UNFUSED, "fresh": FUSED})
    result, output = suite.run(*GATE)
    result.assert_outcomes(passed=1)
    assert [fresh for fresh, _ in suite.lists()] == [False, *[True] * 4]  # it was a suspect
    assert "kernels changed" not in output


def test_fresh_lists_are_compared_with_fresh_ones_only(suite):
    suite.kernels({"own": UNFUSED, "fresh": FUSED})
    suite.run(*SAVE)
    suite.kernels({"own": UNFUSED, "fresh": [*FUSED, "direct_copy_kernel"]})
    result, _ = suite.run(*GATE)
    result.assert_outcomes(passed=1)
    suite.kernels({"own": [*UNFUSED, "direct_copy_kernel"], "fresh": [*FUSED, "direct_copy_kernel"]})
    result, output = suite.run(*GATE)
    result.assert_outcomes(failed=1)
    assert "one call launches 3 kernels instead of 2" in output
    assert "kernels changed: +direct_copy_kernel" in output


def test_a_side_without_a_list_is_no_change(suite):
    suite.kernels({"own": [], "fresh": []})
    suite.run(*SAVE)
    suite.kernels(UNFUSED)
    result, output = suite.run(*GATE)
    result.assert_outcomes(passed=1)
    assert "kernels" not in output.replace("kernels.json", "")


def test_against_a_revision_both_trees_kernels_are_recorded(suite):
    def git(*arguments):
        identity = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=suite.path, check=True, capture_output=True)

    (suite.path / ".gitignore").write_text("__pycache__/\n.gpuperf/\nout.json\n")
    suite.kernels(FUSED)
    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message=fused")
    suite.kernels(UNFUSED)
    result, output = suite.run(*QUICK, "--gpuperf-against=HEAD", "--gpuperf-runs=5", "--gpuperf-json=out.json")
    assert suite.lists() == [(True, UNFUSED), *[(True, None)] * 4]
    result.assert_outcomes(failed=1)
    assert "one call launches 4 kernels instead of 2" in output
    assert CHANGES in output
    assert RESPECIALISED in output
