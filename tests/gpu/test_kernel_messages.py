"""Planted regressions on a real GPU: the failed test's message names the kernels that changed.

The wording has its counterpart with scripted kernels in tests/checks/test_kernel_regression.py. One suite holds all
three, so that they share the sessions' processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from pytest_gpuperf.compare.kernels import kernel_changes

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

ROOT = Path(__file__).parents[2]
SUITE = """
import pathlib

import torch

PLANTED = (pathlib.Path(__file__).parent / "planted").exists()


def test_copy(gpubench):
    def scaled(x):
        y = x * 2.0
        return y.clone() if PLANTED else y

    gpubench(scaled, torch.randn(2048, 2048, device="cuda"))


def test_dtype(gpubench):
    def product(a, b):
        if PLANTED:
            return (a.float() @ b.float()).bfloat16()
        return a @ b

    a, b = (torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    gpubench(product, a, b)


def test_fusion(gpubench):
    @torch.compile
    def activated(x):
        y = x * 2.0 + 1.0
        if PLANTED:
            torch._dynamo.graph_break()
        return torch.nn.functional.gelu(y)

    gpubench(activated, torch.randn(2048, 2048, device="cuda"))
"""
QUICK = ("-p", "no:randomly", "-p", "no:cacheprovider", "--gpuperf-max-time=0.2", "--gpuperf-json=out.json")
TIMEOUT_S = 200.0


class Suite:
    """The suite in a folder of its own, with sessions in processes of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "test_suite.py").write_text(SUITE)
        (folder / "pytest.ini").write_text("[pytest]\n")

    def plant(self) -> None:
        """Slow all three benchmarks down."""
        (self.folder / "planted").touch()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run pytest on it."""
        installed = any(point.name == "gpuperf" for point in entry_points(group="pytest11"))
        plugin = () if installed else ("-p", "pytest_gpuperf.plugin")
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.run(
            [sys.executable, "-m", "pytest", *plugin, *QUICK, *arguments],
            cwd=self.folder,
            # Compiling in this process alone: the pool of compiling processes takes longer to start than they save.
            env={**os.environ, "PYTHONPATH": path, "TORCHINDUCTOR_COMPILE_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def git(self, *arguments: str) -> None:
        """Run git."""
        identity = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True)

    def fresh_lists(self, test: str) -> list[list[str]]:
        """The kernels that the last session's fresh processes recorded for a test."""
        outcomes = json.loads((self.folder / "out.json").read_text())["outcomes"]
        (outcome,) = (one for one in outcomes if one["benchmark"]["node_id"].endswith(f"::{test}"))
        return [outcome["kernel_lists"][r["kernels"]] for r in outcome["runs"] if r.get("fresh") and "kernels" in r]


def said_of(output: str, test: str) -> str:
    """The failure message of one test, on one line."""
    _, _, after = output.partition(f"_ {test} _")
    message = after.split("\n____")[0].split("\n----")[0].split("\n====")[0]
    return " ".join(message.split())


class Told:
    """What the gate said of each test, and the lists of both sides."""

    def __init__(self, suite: Suite) -> None:
        saved = suite.run("--gpuperf-save-baseline", "--gpuperf-runs=5")
        assert saved.returncode == 0, saved.stdout + saved.stderr
        self.before = {test: suite.fresh_lists(test) for test in TESTS}
        suite.plant()
        gated = suite.run("--gpuperf", "--gpuperf-confirm-runs=5")
        assert gated.returncode == 1, gated.stdout + gated.stderr
        self.output = gated.stdout
        self.after = {test: suite.fresh_lists(test) for test in TESTS}


TESTS = ("test_copy", "test_dtype", "test_fusion")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The planted regressions, gated."""
    return Told(Suite(tmp_path_factory.mktemp("planted")))


@pytest.mark.parametrize("test", TESTS)
def test_the_message_names_what_fresh_processes_launch(told: Told, test: str) -> None:
    (before,), (after,) = told.before[test], told.after[test]
    assert len(after) > len(before)
    message = said_of(told.output, test)
    assert message, told.output
    assert " ".join(kernel_changes(before, after).split()) in message


def test_the_extra_copy_is_named(told: Told) -> None:
    assert "+Memcpy DtoD" in said_of(told.output, "test_copy") or "copy" in said_of(told.output, "test_copy").lower()


def test_the_product_without_tensor_cores_is_named(told: Told) -> None:
    (before,), (after,) = told.before["test_dtype"], told.after["test_dtype"]
    assert not set(before) & set(after)


def test_the_lost_fusion_is_named(told: Told) -> None:
    (before,), (after,) = told.before["test_fusion"], told.after["test_fusion"]
    assert all("triton" in name for name in (*before, *after))
    assert (len(before), len(after)) == (1, 2)
    assert "triton" in said_of(told.output, "test_fusion")


@pytest.mark.slow
def test_against_a_revision_the_kernels_of_both_trees_are_compared(tmp_path: Path) -> None:
    suite = Suite(tmp_path)
    (tmp_path / ".gitignore").write_text("__pycache__/\n.gpuperf/\nout.json\n")
    suite.git("init", "--quiet")
    suite.git("add", "--all")
    suite.git("commit", "--quiet", "--message=before")
    suite.plant()
    compared = suite.run("--gpuperf-against=HEAD", "--gpuperf-runs=1", "-k", "copy")
    assert compared.returncode == 1, compared.stdout + compared.stderr
    message = said_of(compared.stdout, "test_copy")
    assert "launches 2 kernels instead of 1" in message
    assert "kernels changed: +" in message
