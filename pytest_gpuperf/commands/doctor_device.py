"""What the doctor says of the measured device and the software that drives it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import metadata

from pytest_gpuperf.commands.doctor_finding import DoctorFinding, fine, matters, note
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.batch import Target
from pytest_gpuperf.measure.device_facts import DeviceFacts
from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.errors import first_line
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.report import units
from pytest_gpuperf.settings import BenchmarkSettings

LOST = "lost"
HIGHEST_USUAL_FLOOR_US = 10.0


def device_findings(machine: Machine, seen_by_driver: int | None) -> Iterator[DoctorFinding]:
    """Say what is measured on; a GPU that the driver knows and torch does not is a fault."""
    if machine.kind != "cpu":
        yield fine("device", f"{machine.model}, driver {machine.driver or 'unknown'}")
    elif seen_by_driver:
        seen = f"{machine.model}, though the driver knows {units.count(seen_by_driver, 'GPU')}"
        remedy = "install a CUDA build of PyTorch, or look at CUDA_VISIBLE_DEVICES; --device=cpu if that is meant"
        yield matters("device", seen, remedy)
    else:
        yield note("device", f"{machine.model}; there is no GPU", "none where CPU code is what is measured")


def software_findings(
    machine: Machine, facts: DeviceFacts, torch_wants: Sequence[str], torch_problem: str = ""
) -> Iterator[DoctorFinding]:
    """Say whether driver, CUDA, torch and Triton belong together.

    `torch_wants` are torch's requirements, and `torch_problem` is why it cannot be imported.
    """
    built = re.match(r"(\d+)\.(\d+)", machine.cuda)
    if built and facts.cuda_of_driver:
        runs = ".".join(map(str, facts.cuda_of_driver))
        seen = f"driver for CUDA {runs}, torch {machine.torch} built for CUDA {machine.cuda}"
        if facts.cuda_of_driver[0] < int(built[1]):
            yield matters("CUDA", seen, "update the driver, or install a torch built for an older CUDA")
        else:
            yield fine("CUDA", seen)
    if torch_problem:
        seen = f"torch {machine.torch or 'of unknown version'} cannot be imported ({torch_problem})"
        yield matters("torch", seen, "install it anew, or remove it; until then nothing is measured on a GPU")
    else:
        yield _triton(machine, wanted_triton(torch_wants))


def wanted_triton(requirements: Sequence[str]) -> str:
    """Return the version of Triton that one of torch's requirements pins; empty where none does."""
    found = (re.match(r"(?:pytorch-)?triton(?:-\w+)?\s*==\s*([\w.]+)", line) for line in requirements)
    return next((match[1] for match in found if match), "")


def torch_requirements() -> list[str]:
    """Return what the installed torch requires; nothing where there is none."""
    try:
        return metadata.requires("torch") or []
    except metadata.PackageNotFoundError:
        return []


def _triton(machine: Machine, wanted: str) -> DoctorFinding:
    if not machine.torch:
        return note("torch", "not installed", "pip install 'pytest-gpuperf[torch]' to measure on a GPU")
    seen = f"torch {machine.torch}, Triton {machine.triton or 'not installed'}"
    if wanted and machine.triton and not machine.triton.startswith(wanted):
        return matters("torch", f"{seen}; this torch wants {wanted}", f"pip install triton=={wanted}")
    return fine("torch", seen)


def reading_findings(reading: DeviceReading, facts: DeviceFacts, *, on_gpu: bool) -> Iterator[DoctorFinding]:
    """Say what NVML tells of a GPU now and of how it is set up."""
    if not on_gpu:
        return
    yield from _nvml(reading, facts)
    yield from _company(reading)
    yield from _clock(reading, facts)
    yield from _set_up(facts)


def _nvml(reading: DeviceReading, facts: DeviceFacts) -> Iterator[DoctorFinding]:
    untold = (f"{name}: {why}" for name, why in facts.problems.items())
    problems = dict.fromkeys(filter(None, (*reading.notes, facts.absent, *untold)))
    if any(LOST in problem.lower() for problem in problems):
        yield matters(
            "NVML", "; ".join(problems), "the GPU fell off the bus: look at `dmesg`, then restart the machine"
        )
    elif problems:
        remedy = "pip install nvidia-ml-py; in a container, ask for the `utility` driver capability"
        yield note("NVML", "; ".join(problems), remedy)
    else:
        yield fine("NVML", "answers")


def _company(reading: DeviceReading) -> Iterator[DoctorFinding]:
    if reading.other_processes:
        seen = f"{units.count(reading.other_processes, 'other process', 'other processes')} on the GPU"
        yield matters("company", seen, "end them, or measure on another GPU; `nvidia-smi` lists them")
    else:
        yield fine("company", "no other process seen on the GPU")


def _clock(reading: DeviceReading, facts: DeviceFacts) -> Iterator[DoctorFinding]:
    if reading.sm_clock_ghz is not None:
        highest = f" of at most {units.clock(facts.highest_clock_ghz)}" if facts.highest_clock_ghz else ""
        heat = "" if reading.temperature_c is None else f", {reading.temperature_c:.0f} °C"
        yield fine("clock", f"{units.clock(reading.sm_clock_ghz)}{highest}{heat}; metered beside every trial")
    if reading.throttled:
        seen = ", ".join(reading.throttle_reasons)
        yield matters(
            "throttling", seen, "cool the card, or see to its power supply; until then every time is too long"
        )
    lowered = facts.power_limit_w and facts.usual_power_limit_w and facts.power_limit_w < facts.usual_power_limit_w
    if lowered:
        seen = f"limited to {facts.power_limit_w:.0f} W of {facts.usual_power_limit_w:.0f} W"
        yield note("power", seen, f"sudo nvidia-smi -pl {facts.usual_power_limit_w:.0f}, if that is not meant")


def _set_up(facts: DeviceFacts) -> Iterator[DoctorFinding]:
    if facts.persistence is False:
        seen = "persistence mode is off: the first process after a pause waits for the driver, at other clocks"
        yield note("persistence", seen, "sudo nvidia-smi -pm 1, or run nvidia-persistenced")
    elif facts.persistence:
        yield fine("persistence", "on")
    if facts.ecc is not None:
        yield fine("ECC", "on" if facts.ecc else "off; cards with it on have less bandwidth: do not share a baseline")
    if facts.mig:
        seen = "the GPU is cut into slices, which share its power and clocks"
        yield note("MIG", seen, "keep the other slices idle while you measure, or use a whole GPU")


def timer_findings(backend: Backend) -> Iterator[DoctorFinding]:
    """Say what the timer reads around nothing."""
    try:
        timer = backend.timer(BenchmarkSettings(), "events")
        timer.prepare(Target(_nothing))
    except Exception as error:
        remedy = "the device cannot be measured on: run a CUDA sample, and report it if that works"
        yield matters("timer", f"fails: {first_line(error)}", remedy)
        return
    seen = f"{timer.describe()}: reads {units.time(timer.floor_us)} around nothing"
    if timer.floor_us > HIGHEST_USUAL_FLOOR_US:
        yield matters(
            "timer", seen, "calls of less than ten times that cannot be told apart: look for a profiler or load"
        )
    else:
        yield fine("timer", seen)


def _nothing() -> None:
    """Stand in for a callable."""
