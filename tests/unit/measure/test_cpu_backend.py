from __future__ import annotations

import pytest

from pytest_gpuperf.measure.backends import cpu
from pytest_gpuperf.measure.backends.cpu import CpuBackend, model_in_cpu_info
from pytest_gpuperf.measure.errors import TimerUnavailableError
from pytest_gpuperf.settings import BenchmarkSettings

INTEL = "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Intel(R)  Xeon(R) Processor\n\nmodel name\t: other\n"
RASPBERRY = "processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n"
GRAVITON = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU part\t: 0xd40\n"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (INTEL, "Intel(R) Xeon(R) Processor"),
        (RASPBERRY, "Raspberry Pi 4 Model B Rev 1.4"),
        (POWER, "POWER9, altivec supported"),
        (GRAVITON, ""),
        ("", ""),
    ],
)
def test_the_model_is_read_from_cpu_info(text, model):
    assert model_in_cpu_info(text) == model


def test_without_cpu_info_there_is_still_a_model(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "CPU_INFO", tmp_path / "absent")
    assert cpu.cpu_model()


def test_the_machine_is_named():
    machine = CpuBackend().machine()
    assert machine.kind == "cpu"
    assert machine.key
    assert machine.python.count(".") == 2


@pytest.mark.parametrize("timer", ["auto", "wall"])
def test_its_timer_is_the_wall(timer):
    assert CpuBackend().timer(BenchmarkSettings(timer=timer)).describe().startswith("wall, paced by ")


@pytest.mark.parametrize("timer", ["events", "graph", "kernel"])
def test_a_timer_that_needs_a_gpu_is_one_clear_error(timer):
    with pytest.raises(TimerUnavailableError, match=rf"`{timer}` needs a GPU.*--gpuperf-timer"):
        CpuBackend().timer(BenchmarkSettings(timer=timer))
