"""What the scripts under benchmarks/ share still fits the plugin: a session of their suite is run and read."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def suite_runs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("suite_runs", BENCHMARKS / "suite_runs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "suite_runs", module)
    spec.loader.exec_module(module)
    return module


def test_a_session_of_the_suite_is_read_whole(suite_runs: ModuleType, tmp_path: Path) -> None:
    options = (f"--gpuperf-storage={tmp_path}", "--gpuperf-max-time=0.01", "--gpuperf-device=cpu")
    done = suite_runs.session(["--gpuperf-save-baseline=own", "--gpuperf-runs=1", *options], ["add_4k", "matmul_1k"])
    assert done.exit_code == 0, done.output
    assert done.labels("new") == ["add_4k", "matmul_1k"]
    assert set(done.own_runs()) == {"add_4k", "matmul_1k"}
    stored = suite_runs.stored_runs(tmp_path, "own")
    assert {name: runs[0].log_median for name, runs in stored.items()} == {
        name: run.log_median for name, run in done.own_runs().items()
    }
