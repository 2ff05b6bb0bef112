"""`gpuperf doctor`: what it makes of machines of every condition; the scripted ones stand in for real GPUs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_gpuperf.commands import doctor, doctor_runs
from pytest_gpuperf.commands.answer import CommandError
from pytest_gpuperf.commands.doctor_device import (
    device_findings,
    reading_findings,
    software_findings,
    timer_findings,
    wanted_triton,
)
from pytest_gpuperf.commands.doctor_finding import DoctorFinding
from pytest_gpuperf.commands.doctor_host import host_findings
from pytest_gpuperf.commands.doctor_runs import ceiling_findings, spread_finding, spread_findings
from pytest_gpuperf.measure.backends.fake import FakeBackend
from pytest_gpuperf.measure.device_facts import DeviceFacts
from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.errors import MeasureError
from pytest_gpuperf.measure.host import HostFacts
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.store.schema import Entry

GPU = Machine(model="NVIDIA H200", kind="cuda", driver="580.65", cuda="13.0", torch="2.11.0+cu130", triton="3.6.0")
CPU = Machine(model="AMD EPYC", kind="cpu", torch="2.13.0", triton="3.7.1")
QUIET = HostFacts(cores=8, load=0.1, governors=("performance",), virtual=False, swap_used_bytes=0)


def weights(findings) -> dict[str, str]:
    return {finding.about: finding.weight for finding in findings}


def one(findings, about: str) -> DoctorFinding:
    (found,) = (finding for finding in findings if finding.about == about)
    return found


@pytest.fixture
def examine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpuperf: Callable) -> Callable:
    """Return what runs the command on the scripted device, with a quiet host and no fresh processes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "hazards", lambda: ())
    monkeypatch.setattr(doctor, "torch_requirements", list)

    def run(*arguments: str, host: HostFacts = QUIET):
        monkeypatch.setattr(doctor, "backend_for", lambda _: FakeBackend(run=1))
        monkeypatch.setattr(doctor, "read_host", lambda: host)
        return gpuperf("doctor", *arguments)

    return run


def test_a_fit_machine(examine: Callable) -> None:
    code, out, err = examine("--quick")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "fit for benchmarking"
    assert "  device: Fake GPU" in out


def test_what_matters_is_marked_has_its_remedy_and_the_exit_code(examine: Callable) -> None:
    code, out, _ = examine("--quick", host=HostFacts(cores=2, load=6.8))
    assert code == 1
    lines = out.splitlines()
    at = lines.index("! load: 6.8 over the last minute on 2 cores")
    assert lines[at + 1].startswith("    → measure when nothing else runs here")
    assert lines[-1].endswith("findings matter (!)")


def test_json_has_machine_and_findings(examine: Callable, folder: Path) -> None:
    code, out, _ = examine("--quick", "--json", "-", host=HostFacts(cores=1))
    content = json.loads(out)
    assert code == 1
    assert content["machine"]["model"] == "Fake GPU"
    found = {finding["about"]: finding for finding in content["findings"]}
    assert found["cores"]["weight"] == "matters"
    assert found["cores"]["remedy"]
    examine("--quick", "--json", "out.json", host=HostFacts(cores=1))
    assert json.loads((folder / "out.json").read_text()) == content


@pytest.mark.parametrize("arguments", [("--runs", "2"), ("--runs", "many"), ("surplus",), ("--json",)])
def test_wrong_usage(examine: Callable, arguments: tuple[str, ...]) -> None:
    assert examine(*arguments).code == 2


def test_a_device_that_is_not_there(gpuperf: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise MeasureError("--gpuperf-device=cuda:7: there is no such GPU")

    monkeypatch.setattr(doctor, "backend_for", refuse)
    assert gpuperf("doctor", "--device", "cuda:7") == (2, "", "gpuperf: error: --device=cuda:7: there is no such GPU\n")


def test_on_a_real_cpu_it_has_something_to_say(gpuperf: Callable) -> None:
    code, out, err = gpuperf("doctor", "--quick", "--device", "cpu")
    assert code in (0, 1)
    assert err == ""
    assert "timer: wall, paced by" in out


@pytest.mark.parametrize(
    ("host", "about", "on_gpu", "weight"),
    [
        (HostFacts(cores=8, load=3.9), "load", True, "fine"),
        (HostFacts(cores=8, load=4.1), "load", True, "matters"),
        (HostFacts(cores=1), "cores", True, "matters"),
        (HostFacts(cores=8, quota_cores=1.5), "cores", True, "matters"),
        (HostFacts(cores=8, quota_cores=8.0), "cores", True, "fine"),
        (HostFacts(cores=8, governors=("powersave",)), "frequency", False, "matters"),
        (HostFacts(cores=8, governors=("performance", "powersave")), "frequency", False, "matters"),
        (HostFacts(cores=8, governors=("powersave",)), "frequency", True, "note"),
        (HostFacts(cores=8, governors=("performance",)), "frequency", False, "fine"),
        (HostFacts(cores=8), "frequency", False, "note"),
        (HostFacts(cores=8, virtual=True), "virtualisation", False, "note"),
        (HostFacts(cores=8, swap_used_bytes=1 << 30), "swap", False, "note"),
        (HostFacts(cores=8, swap_used_bytes=4096), "swap", False, "fine"),
    ],
)
def test_hosts(host: HostFacts, about: str, on_gpu: bool, weight: str) -> None:
    found = one(host_findings(host, on_gpu=on_gpu), about)
    assert found.weight == weight
    assert bool(found.remedy) is (weight != "fine")


def test_a_host_that_tells_nothing() -> None:
    assert weights(host_findings(HostFacts(cores=4), on_gpu=False)) == {"cores": "fine", "frequency": "note"}


@pytest.mark.parametrize(
    ("machine", "by_driver", "weight"),
    [(GPU, None, "fine"), (CPU, None, "note"), (CPU, 0, "note"), (CPU, 2, "matters")],
)
def test_devices(machine: Machine, by_driver: int | None, weight: str) -> None:
    (found,) = device_findings(machine, by_driver)
    assert found.weight == weight


@pytest.mark.parametrize(("driver", "weight"), [((13, 2), "fine"), ((12, 8), "matters"), ((14, 0), "fine")])
def test_a_driver_older_than_torchs_cuda(driver: tuple[int, int], weight: str) -> None:
    assert one(software_findings(GPU, DeviceFacts(cuda_of_driver=driver), []), "CUDA").weight == weight


@pytest.mark.parametrize(
    ("wants", "weight"),
    [
        (["numpy", 'triton==3.6.0; platform_system == "Linux"'], "fine"),
        (["triton==3.7.1"], "matters"),
        (["pytorch-triton-rocm==3.6.0"], "fine"),
        ([], "fine"),
    ],
)
def test_a_triton_that_is_not_torchs(wants: list[str], weight: str) -> None:
    found = one(software_findings(GPU, DeviceFacts(), wants), "torch")
    assert found.weight == weight
    assert weight == "fine" or found.remedy == "pip install triton==3.7.1"


def test_without_torch_it_says_how_to_get_it() -> None:
    found = one(software_findings(Machine(model="CPU", kind="cpu"), DeviceFacts(), []), "torch")
    assert (found.weight, found.seen) == ("note", "not installed")


def test_only_exact_requirements_pin_triton() -> None:
    assert wanted_triton(["triton>=3.0", "tritonclient==2.0"]) == ""


FAULTS = {
    "missing": (DeviceReading(notes=("no NVML (ModuleNotFoundError: pynvml)",)), DeviceFacts(), "note"),
    "denied": (DeviceReading(), DeviceFacts(problems={"ecc": "NVMLError: Insufficient Permissions"}), "note"),
    "lost": (DeviceReading(), DeviceFacts(problems={"ecc": "NVMLError_GpuIsLost: GPU is lost"}), "matters"),
    "well": (DeviceReading(sm_clock_ghz=1.7), DeviceFacts(), "fine"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_nvml(fault: str) -> None:
    reading, facts, weight = FAULTS[fault]
    found = one(reading_findings(reading, facts, on_gpu=True), "NVML")
    assert found.weight == weight
    assert bool(found.remedy) is (weight != "fine")


class Nvml580:
    """A scripted library whose card falls off the bus after it was found."""

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def __getattr__(self, name: str) -> Callable:
        def lost(*_: object) -> None:
            raise RuntimeError("GPU is lost")

        return lost


@pytest.mark.parametrize(
    ("library", "code", "mark"), [(None, 0, "- NVML: no NVML (ModuleNotFoundError"), (Nvml580(), 1, "! NVML: ")]
)
def test_the_command_with_and_without_nvml(
    examine: Callable, monkeypatch: pytest.MonkeyPatch, library: object, code: int, mark: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)
    result = examine("--quick")
    assert result.code == code
    assert mark in result.out


def test_a_troubled_card() -> None:
    reading = DeviceReading(
        sm_clock_ghz=1.2,
        temperature_c=93.0,
        throttled=True,
        throttle_reasons=("hardware thermal slowdown",),
        other_processes=2,
    )
    facts = DeviceFacts(
        persistence=False,
        ecc=True,
        mig=True,
        highest_clock_ghz=1.98,
        power_limit_w=400.0,
        usual_power_limit_w=700.0,
    )
    found = list(reading_findings(reading, facts, on_gpu=True))
    assert weights(found) == {
        "NVML": "fine",
        "company": "matters",
        "clock": "fine",
        "throttling": "matters",
        "power": "note",
        "persistence": "note",
        "ECC": "fine",
        "MIG": "note",
    }
    assert one(found, "clock").seen.startswith("1.200 GHz of at most 1.980 GHz, 93 °C")
    assert one(found, "power").remedy.startswith("sudo nvidia-smi -pl 700")


def test_nothing_of_a_gpu_is_said_on_a_cpu() -> None:
    assert list(reading_findings(DeviceReading(), DeviceFacts(), on_gpu=False)) == []


@pytest.mark.parametrize(("floor_us", "weight"), [(1.3, "fine"), (25.0, "matters")])
def test_timer_floors(floor_us: float, weight: str) -> None:
    timer = SimpleNamespace(floor_us=floor_us, prepare=lambda _: None, describe=lambda: "events, queued")
    (found,) = timer_findings(SimpleNamespace(timer=lambda *_: timer))
    assert found.weight == weight
    assert "around nothing" in found.seen


def test_a_timer_that_fails() -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("CUDA error: unspecified launch failure")

    (found,) = timer_findings(SimpleNamespace(timer=fail))
    assert (found.weight, found.seen) == ("matters", "fails: RuntimeError: CUDA error: unspecified launch failure")


def test_ceilings_are_measured_anew_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    backend = FakeBackend(run=1, between_run_sd=0.0)
    for times in (1, 2):
        (found,) = ceiling_findings(backend)
        assert found.weight == "fine"
        assert found.seen.startswith("copies 4")
        assert "TB/s, multiplies bf16 at 80" in found.seen
        assert backend.probings == times
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_ceilings_that_cannot_be_measured_are_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Full(FakeBackend):
        def probing(self):
            raise MemoryError("out of memory")

    (found,) = ceiling_findings(Full(run=1))
    assert (found.weight, found.seen) == ("note", "could not be measured: MemoryError: out of memory")


def test_a_steady_machine_sees_small_slowdowns(make_entry: Callable[..., Entry]) -> None:
    found = spread_finding("copy", make_entry("reference_suite.py::test_copy", runs=10).runs)
    assert (found.about, found.weight) == ("spread of copy", "fine")
    assert "between 10 processes; a gate sees slowdowns from" in found.seen


def test_a_noisy_machine_is_blind(make_entry: Callable[..., Entry]) -> None:
    far = [make_entry("t.py::test_copy", mean, 1).runs[0] for mean in (50, 55, 48, 60, 45, 52, 58, 49, 51, 47)]
    found = spread_finding("copy", far)
    assert found.weight == "matters"
    assert "which is more than 5 %" in found.seen


def test_the_reference_benchmarks_are_told_by_their_names(
    make_entry: Callable[..., Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def take(runs: int, arguments: list[str]):
        asked.append([str(runs), *arguments])
        return SimpleNamespace(entries=[make_entry("pkg/reference_suite.py::test_sort", runs=runs)])

    monkeypatch.setattr(doctor_runs, "take_runs", take)
    (found,) = spread_findings(6, "cpu")
    assert found.about == "spread of sort"
    assert asked[0][0] == "6"
    assert "--gpuperf-device=cpu" in asked[0]


def test_a_reference_suite_that_does_not_run_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise CommandError("pytest exited with code 3")

    monkeypatch.setattr(doctor_runs, "take_runs", fail)
    (found,) = spread_findings(6, "cpu")
    assert found.weight == "matters"


@pytest.mark.slow
def test_the_reference_suite_runs_in_fresh_processes() -> None:
    assert {finding.about for finding in spread_findings(3, "cpu")} == {
        "spread of python_loop",
        "spread of sort",
        "spread of hash",
    }


@pytest.mark.parametrize("arguments", [(), ("--device=cpu",)])
def test_a_torch_that_cannot_be_imported_matters_and_the_cpu_is_looked_at(
    gpuperf: Callable, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(doctor, "torch_problem", lambda: "ImportError: libcudart.so.13: cannot open")
    code, out, err = gpuperf("doctor", "--quick", "--json=-", *arguments)
    content = json.loads(out)
    (found,) = (finding for finding in content["findings"] if finding["about"] == "torch")
    assert (code, err, content["machine"]["kind"], found["weight"]) == (1, "", "cpu", "matters")
    assert "cannot be imported (ImportError: libcudart.so.13: cannot open)" in found["seen"]
    assert found["remedy"].startswith("install it anew, or remove it")


def test_ceilings_that_cannot_be_kept_are_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (found,) = ceiling_findings(FakeBackend(run=1))
    assert (found.about, found.weight) == ("ceilings", "note")
    assert found.seen.startswith("copies ")
    assert f"they cannot be kept in {tmp_path}/file/pytest-gpuperf/ceilings" in found.seen
    assert "XDG_CACHE_HOME" in found.remedy
