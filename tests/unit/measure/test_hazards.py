from __future__ import annotations

import sys

import pytest

from pytest_gpuperf.measure.hazards import hazards


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name in (
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_INJECTION64_PATH",
        "LD_PRELOAD",
        "NV_SANITIZER_INJECTION_PORT_BASE",
        "NV_NSIGHT_INJECTION_PORT_BASE",
        "NSYS_PROFILING_SESSION_ID",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def before():
    """What holds for the test run itself (a coverage tool, a debugger)."""
    return set(hazards())


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("CUDA_LAUNCH_BLOCKING", "1", "CUDA_LAUNCH_BLOCKING"),
        ("CUDA_INJECTION64_PATH", "/opt/tool.so", "profiler or sanitizer"),
        ("NV_SANITIZER_INJECTION_PORT_BASE", "49152", "profiler or sanitizer"),
        ("NV_NSIGHT_INJECTION_PORT_BASE", "49152", "profiler or sanitizer"),
        ("LD_PRELOAD", "/usr/lib/libasan.so.8", "sanitizer"),
        ("LD_PRELOAD", "/opt/libToolsInjection64.so", "GPU profiler"),
    ],
)
def test_the_environment_is_looked_at(before, monkeypatch, name, value, word):
    monkeypatch.setenv(name, value)
    (found,) = set(hazards()) - before
    assert word in found


def test_blocking_launches_switched_off_are_no_hazard(before, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    assert set(hazards()) == before


def test_a_tracer_is_a_hazard(before):
    previous = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        found = hazards()
    finally:
        sys.settrace(previous)
    assert "a debugger or tracer is active (sys.settrace)" in found


def test_a_profiler_is_a_hazard(before):
    previous = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        found = hazards()
    finally:
        sys.setprofile(previous)
    assert "a Python profiler is active (sys.setprofile)" in found


def test_torchs_profiler_and_anomaly_detection_are_hazards(before):
    torch = pytest.importorskip("torch")
    with torch.autograd.set_detect_anomaly(True):
        assert "autograd's anomaly detection is on" in hazards()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert "torch.profiler is active" in hazards()
    assert set(hazards()) == before
