from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gpuperf.measure import device_code
from pytest_gpuperf.measure.device_code import PTX, DeviceCode, DeviceCodeError


def assemblers():
    """The assemblers that Triton brings along, with the architectures each is for."""
    triton = pytest.importorskip("triton")
    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    return {
        name: architectures
        for name, architectures in {
            "ptxas": ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"],
            "ptxas-blackwell": ["sm_75", "sm_90", "sm_100", "sm_120"],
        }.items()
        if (folder / name).exists()
    }, folder


def test_the_kernels_assemble_for_every_architecture_without_spilling(tmp_path):
    known, folder = assemblers()
    if not known:
        pytest.skip("Triton brings no assembler here")
    source = tmp_path / "kernels.ptx"
    source.write_text(PTX)
    for name, architectures in known.items():
        for architecture in architectures:
            command = [folder / name, "-v", f"-arch={architecture}", source, "-o", tmp_path / "out.cubin"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert set(re.findall(r"(\d+) bytes spill stores", done.stderr)) == {"0"}


def test_the_clock_is_read_within_the_ticks(tmp_path):
    """The assembler must keep the order: tick, clock, spin, tick, clock."""
    known, folder = assemblers()
    if not known or not (folder / "cuobjdump").exists():
        pytest.skip("Triton brings no disassembler here")
    source, binary = tmp_path / "kernels.ptx", tmp_path / "kernels.cubin"
    source.write_text(PTX)
    subprocess.run([folder / "ptxas", "-arch=sm_90", source, "-o", binary], check=True)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        [folder / "cuobjdump", "-sass", binary], capture_output=True, text=True, check=True, env={"PATH": path}
    )
    meter = done.stdout.split("Function : gpuperf_meter")[1].split("Function :")[0]
    reads = re.findall(r"SR_(GLOBALTIMER|CLOCK)LO", meter)
    assert reads == ["GLOBALTIMER"] * 2 + ["CLOCK"] * 2 + ["GLOBALTIMER"] * 2 + ["CLOCK"]


@pytest.mark.parametrize("drivers", [{}, {sys.platform: "no-such-library.so"}])
def test_without_a_driver_it_says_so(monkeypatch, drivers):
    monkeypatch.setattr(device_code, "DRIVERS", drivers)
    with pytest.raises(DeviceCodeError, match="the CUDA driver cannot be loaded"):
        DeviceCode()


class Driver:
    """A scripted driver, all of whose functions end in one status."""

    def __init__(self, status):
        self._status = status
        self.called = []

    def __getattr__(self, name):
        def function(*arguments):
            self.called.append(name)
            return self._status

        return function

    def cuGetErrorString(self, status, text):
        text._obj.value = b"no kernel image is available"
        return 0


def test_a_driver_that_refuses_the_code_is_quoted(monkeypatch):
    monkeypatch.setattr(device_code, "_load_driver", lambda: Driver(209))
    with pytest.raises(DeviceCodeError, match=r"cuModuleLoadData failed: no kernel image is available \(209\)"):
        DeviceCode()


def test_a_failing_launch_is_an_error_and_not_a_silent_zero(monkeypatch):
    driver = Driver(0)
    monkeypatch.setattr(device_code, "_load_driver", lambda: driver)
    launch = DeviceCode().prepare("gpuperf_meter")
    launch(0)
    driver._status = 719
    with pytest.raises(DeviceCodeError, match=r"cuLaunchKernel failed: .* \(719\)"):
        launch(0)
