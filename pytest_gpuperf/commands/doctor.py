"""`gpuperf doctor`: is this machine fit for benchmarking?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import msgspec

from pytest_gpuperf.commands.answer import FINE, VERDICT_FAILS, Answer, CommandError, written_json
from pytest_gpuperf.commands.doctor_device import (
    device_findings,
    reading_findings,
    software_findings,
    timer_findings,
    torch_requirements,
)
from pytest_gpuperf.commands.doctor_finding import DoctorFinding
from pytest_gpuperf.commands.doctor_host import host_findings
from pytest_gpuperf.commands.doctor_runs import LEAST_RUNS, ceiling_findings, spread_findings
from pytest_gpuperf.commands.places import terminal_width
from pytest_gpuperf.commands.settings_options import add_setting, whole_number
from pytest_gpuperf.measure.backends import backend_for, torch_problem
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.device_facts import read_facts
from pytest_gpuperf.measure.errors import MeasureError
from pytest_gpuperf.measure.hazards import hazards
from pytest_gpuperf.measure.host import read_host
from pytest_gpuperf.measure.nvml import Nvml, devices_seen
from pytest_gpuperf.report.summary import wrapped

DEFAULT_RUNS = 10
_MARKS = {"fine": "  ", "note": "- ", "matters": "! "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_setting(parser, "device")
    parser.add_argument("--quick", action="store_true", help="look only, and measure nothing but the timer's floor")
    parser.add_argument(
        "--runs",
        type=whole_number(LEAST_RUNS),
        default=DEFAULT_RUNS,
        metavar="N",
        help=f"fresh processes that the reference benchmarks are run in (default: {DEFAULT_RUNS})",
    )
    parser.add_argument("--json", metavar="PATH", help="write the findings as JSON; '-': print that instead")


def run(arguments: argparse.Namespace) -> Answer:
    """Examine the machine; exit code 1 where something matters."""
    problem = torch_problem()
    try:
        backend = backend_for(arguments.device or ("cpu" if problem else None))
    except MeasureError as error:
        raise CommandError(str(error).replace("--gpuperf-device", "--device")) from error
    try:
        found = list(_examined(backend, arguments, problem))
    finally:
        backend.close()
    text = _text(found)
    if arguments.json is not None:
        content = {"machine": backend.machine(), "findings": found}
        text = written_json(msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n", arguments.json)
        text = text or _text(found)
    return Answer(text, VERDICT_FAILS if any(finding.weight == "matters" for finding in found) else FINE)


def _examined(backend: Backend, arguments: argparse.Namespace, torch_problem: str) -> Iterator[DoctorFinding]:
    machine = backend.machine()
    on_gpu = machine.kind != "cpu"
    facts = read_facts(Nvml(machine.uuid))
    yield from device_findings(machine, None if arguments.device else devices_seen())
    yield from software_findings(machine, facts, torch_requirements(), torch_problem)
    yield from reading_findings(backend.read_state(), facts, on_gpu=on_gpu)
    yield from host_findings(read_host(), on_gpu=on_gpu)
    for hazard in hazards():
        yield DoctorFinding(about="hazard", weight="matters", seen=hazard, remedy="unset it, or end it, to measure")
    yield from timer_findings(backend)
    if not arguments.quick:
        yield from ceiling_findings(backend)
        yield from spread_findings(arguments.runs, backend.device)


def _text(found: Sequence[DoctorFinding]) -> str:
    width = terminal_width()
    lines: list[str] = []
    for finding in found:
        lines += wrapped([f"{_MARKS[finding.weight]}{finding.about}: {finding.seen}"], width)
        lines += [f"    {line}" for line in wrapped([f"→ {finding.remedy}"] if finding.remedy else [], width - 4)]
    many = sum(finding.weight == "matters" for finding in found)
    verdict = f"{many} of {len(found)} findings matter (!)" if many else "fit for benchmarking"
    return "\n".join((*lines, "", verdict))
