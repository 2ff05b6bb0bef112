from __future__ import annotations

import gc
import os
import weakref
from types import SimpleNamespace

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


def test_the_machine_says_what_threads_it_may_use(monkeypatch):
    for variable in cpu.THREAD_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(cpu, "usable_cores", lambda: 2)
    assert CpuBackend().machine().threads == "2 cores"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(cpu, "usable_cores", lambda: 1)
    assert CpuBackend().machine().threads == "1 core, OMP_NUM_THREADS=1"


@pytest.mark.parametrize("timer", ["auto", "wall"])
def test_its_timer_is_the_wall(timer):
    assert CpuBackend().timer(BenchmarkSettings(timer=timer)).describe().startswith("wall, paced by ")


@pytest.mark.parametrize("timer", ["events", "graph", "kernel"])
def test_a_timer_that_needs_a_gpu_is_one_clear_error(timer):
    with pytest.raises(TimerUnavailableError, match=rf"`{timer}` needs a GPU.*--gpuperf-timer"):
        CpuBackend().timer(BenchmarkSettings(timer=timer))


class Node:
    """Refers to itself, so that only garbage collection frees it."""

    def __init__(self):
        self.own = self


def grown_by(monkeypatch, *sizes_mib):
    """Let the process hold so much at each look, and say after how many calls of `release_memory` old cycles go."""
    pages = [(mib << 20) // os.sysconf("SC_PAGE_SIZE") for mib in sizes_mib]
    readings = iter(pages)
    monkeypatch.setattr(cpu, "MEMORY_IN_USE", SimpleNamespace(read_text=lambda: f"0 {next(readings)} 0 0 0 0 0\n"))
    node = Node()
    gone = weakref.ref(node)
    gc.collect()  # it is old now: young collections leave it alone
    del node
    backend = CpuBackend()
    for calls in range(len(pages)):
        gc.collect(1)
        assert gone() is not None
        backend.release_memory()
        if gone() is None:
            return calls + 1
    return None


def test_old_garbage_is_collected_once_the_process_has_grown(monkeypatch):
    assert grown_by(monkeypatch, 400, 500, 656, 657, 400) == 4


def test_growth_is_counted_from_the_least_that_was_held(monkeypatch):
    assert grown_by(monkeypatch, 900, 400, 657, 400) == 3


def test_a_process_that_does_not_grow_pays_nothing(monkeypatch):
    assert grown_by(monkeypatch, 4000, 4100, 4200, 4256) is None


def test_what_is_left_after_a_collection_is_what_growth_is_counted_from(monkeypatch):
    collected = []
    readings = iter([(mib << 20) // os.sysconf("SC_PAGE_SIZE") for mib in (100, 400, 380, 600, 636, 637, 637)])
    monkeypatch.setattr(cpu, "MEMORY_IN_USE", SimpleNamespace(read_text=lambda: f"0 {next(readings)} 0\n"))
    monkeypatch.setattr(cpu, "gc", SimpleNamespace(collect=lambda: collected.append(1)))
    backend = CpuBackend()
    counts = []
    for _ in range(5):
        backend.release_memory()
        counts.append(len(collected))
    assert counts == [0, 1, 1, 1, 2]


@pytest.mark.parametrize("text", ["", "7", "a b c", None])
def test_a_system_that_does_not_tell_its_memory(monkeypatch, tmp_path, text):
    place = tmp_path / "statm"
    if text is not None:
        place.write_text(text)
    monkeypatch.setattr(cpu, "MEMORY_IN_USE", place)
    assert cpu.resident_bytes() == 0
    CpuBackend().release_memory()


def test_the_memory_in_use_is_told_in_bytes():
    before = cpu.resident_bytes()
    held = bytearray(os.urandom(1)) * (64 << 20)
    assert before + (48 << 20) < cpu.resident_bytes() < before + (1 << 30)
    del held


@pytest.mark.parametrize(
    ("cache_mib", "available_mib", "largest_mib"),
    [(None, 100_000, 64), (10, 100_000, 64), (48, 100_000, 96), (1000, 100_000, 256), (1000, 400, 50)],
    ids=["unknown cache", "small cache", "usual cache", "huge cache", "little memory"],
)
def test_copies_are_larger_than_the_cache_and_leave_memory_to_others(
    monkeypatch, cache_mib, available_mib, largest_mib
):
    asked = []
    monkeypatch.setattr(cpu, "cache_bytes", lambda: None if cache_mib is None else cache_mib << 20)
    monkeypatch.setattr(cpu, "available_bytes", lambda: available_mib << 20)
    monkeypatch.setattr(cpu, "_probes", lambda copies_bytes, torch, cores: asked.append(copies_bytes))
    CpuBackend().probing().probes()
    assert asked == [((largest_mib << 20) // 2, largest_mib << 20)]
