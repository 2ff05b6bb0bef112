"""What the scripts under benchmarks/ share still fits the plugin: a session of their suite is run and read."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

SCRIPTS = [path for path in sorted(BENCHMARKS.glob("*.py")) if "argparse" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_can_be_imported_and_tells_its_arguments(path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    done = subprocess.run([sys.executable, str(path), "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {path.name} ")


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


def test_the_precision_of_timers_is_measured_and_told_again(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    record, table = tmp_path / "record.json", tmp_path / "table.txt"
    script = [sys.executable, str(BENCHMARKS / "precision.py")]
    options = ["--device=cpu", "--processes=2", "--budget-ms=1", f"--out={record}", f"--table={table}"]
    first = subprocess.run([*script, *options], capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stdout + first.stderr
    processes = json.loads(record.read_text())["processes"]
    assert len(processes) == 2
    assert not any("failed" in str(timed) for process in processes for timed in process.values())
    again = subprocess.run([*script, f"--from={record}"], capture_output=True, text=True, check=False)
    assert again.stdout == table.read_text()


LOOKED_UP = """
import kernels
from kernel_tables import targets
results = {
    key: [{"problem": p.name, **{c: 2.0 for c in COLUMNS}} for p in make()] for key, make in kernels.PROBLEMS.items()
}
names = [p.name for make in kernels.PROBLEMS.values() for p in make()]
print([t.what for t in targets(results) if t.verdict == "not measured"], set(kernels.TABLES) ^ set(kernels.TITLES))
print([name for name in names if names.count(name) > 1])
print([key for key in kernels.PROBLEMS if not kernels._to_compile(key, kernels.row_names(key))])
some = kernels.chosen({key: kernels.row_names(key) for key in kernels.TABLES}, ["4096x200", "64×1048576"])
print({key: [kernels.PROBLEMS[key]()[index].name for _, index in kernels._to_compile(key, some[key])] for key in some})
"""
COLUMNS = [f"{name}{what}" for name in ("", "triton ", "cuda ") for what in ("of copy", "× torch", "× compiled")]
COLUMNS += ["× flash", "× cudnn"]


def test_every_kernel_target_finds_the_problem_it_speaks_of() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    script = LOOKED_UP.replace("COLUMNS", repr(COLUMNS))
    environment = {**os.environ, "PYTHONPATH": f"{BENCHMARKS.parent}{os.pathsep}{BENCHMARKS}"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    needed = {
        "softmax": ["64×1048576"],
        "general": ["2×16×4096×200 backward", "2×16×4096×200 causal backward"],
    }
    assert done.stdout.splitlines() == ["[] {'targets'}", "[]", "[]", str(needed)]
