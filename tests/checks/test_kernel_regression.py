"""A planted regression names the kernels that changed: from the profile of a call to the failed test's message."""

from __future__ import annotations

import pytest

# A run inside this process forgets what it imported; some modules cannot be imported twice.
for module in ("scipy.special", "scipy.stats", "torch"):
    pytest.importorskip(module)

CONFTEST = """
import json
import pathlib

from pytest_gpuperf.checks import inspection
from pytest_gpuperf.checks.launches import Launch, Observed
from pytest_gpuperf.checks.waits import Waits
from pytest_gpuperf.checks import evidence
from pytest_gpuperf.measure.backends.fake import FakeBackend

HERE = pathlib.Path(__file__).parent
backend = FakeBackend()


class Watcher:
    sees_kernels = True
    call_s = 0.0

    def watch(self, call):
        names = json.loads((HERE / "kernels.json").read_text())
        launches = tuple(Launch(name=name, start_us=10.0 * i, duration_us=10.0) for i, name in enumerate(names))
        return Observed(output=call(), launches=launches)

    def synchronize(self):
        pass

    warm_up = synchronize


def pytest_gpuperf_make_backend(config, device):
    return backend


def pytest_configure(config):
    inspection.watcher_for = lambda device, torch: Watcher()
    evidence.cuda_waits = lambda torch, call: Waits()
"""
SUITE = """
import conftest


def test_gelu(gpubench):
    gpubench(conftest.backend.clock.advance_us, 100.0)
"""


@pytest.mark.slow
def test_the_failure_says_which_kernels_came_and_went(pytester, monkeypatch):
    from pytest_gpuperf.checks import evidence, inspection

    monkeypatch.setattr(inspection, "watcher_for", inspection.watcher_for)
    monkeypatch.setattr(evidence, "cuda_waits", evidence.cuda_waits)
    pytester.makepyfile(conftest=CONFTEST, test_suite=SUITE)
    pytester.makeini("[pytest]")
    kernels = pytester.path / "kernels.json"
    quick = ("-p", "no:randomly", "-p", "no:cacheprovider", "--gpuperf-fresh-start=interpreter")
    kernels.write_text('["triton_poi_fused_add_gelu_0", "gemm_tile64x64"]')
    pytester.runpytest_inprocess(*quick, "--gpuperf-save-baseline", "--gpuperf-runs=5").assert_outcomes(passed=1)
    kernels.write_text('["direct_copy_kernel", "add_kernel", "gelu_kernel", "gemm_tile128x64"]')
    result = pytester.runpytest_inprocess(*quick, "--gpuperf", "--gpuperf-confirm-runs=4")
    result.assert_outcomes(failed=1)
    output = " ".join(result.stdout.str().split())
    assert "one call launches 4 kernels instead of 2" in output
    assert "−triton_poi_fused_add_gelu_0, +direct_copy_kernel, +add_kernel, +gelu_kernel" in output
    assert "gemm_tile64x64 → gemm_tile128x64" in output
