"""The command that fresh processes start with, and how their runs join a finding."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pytest_gpuperf.compare.fresh import FreshRun, MeasuredEvent
from pytest_gpuperf.compare.launchers import ForkUnavailableError, FreshCommand
from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.session import rounds as rounds_module
from pytest_gpuperf.session.rounds import Arm, Rounds, own_command, session_command, start_together, with_runs


def config(*arguments: str, plugins: tuple[str, ...] = (), **attributes: object) -> pytest.Config:
    return SimpleNamespace(  # type: ignore[return-value]
        invocation_params=SimpleNamespace(args=arguments, dir=Path("/here")),
        pluginmanager=SimpleNamespace(hasplugin=lambda name: name in plugins),
        **attributes,
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ["--with", "-n0"]),
        (("-n", "4", "tests"), ["-n", "4", "tests", "--with", "-n0"]),
        (("-x", "--", "-odd"), ["-x", "--with", "-n0", "--", "-odd"]),
    ],
)
def test_options_go_before_two_dashes(arguments: tuple[str, ...], expected: list[str]) -> None:
    given = own_command(config(*arguments, plugins=("xdist",)))
    command = FreshCommand(head=("python",), arguments=tuple(given["arguments"]), cwd="/here")  # type: ignore[arg-type]
    line = command.line("--with")
    assert line[0] == "python"
    assert sorted(line[1:]) == sorted(expected)
    ends = line.index("--") if "--" in line else len(line)
    assert {"--with", "-n0"} <= set(line[:ends])


def test_started_as_a_module_or_as_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    main.__spec__ = SimpleNamespace(name="pytest.__main__")  # type: ignore[assignment]
    assert own_command(config())["head"][-2:] == ["-m", "pytest"]  # type: ignore[index]
    main.__spec__ = None
    head = own_command(config())["head"]
    assert head[0] == sys.executable  # type: ignore[index]
    assert head[-2] == "-c"  # type: ignore[index]


def test_a_worker_of_xdist_uses_its_controllers_command() -> None:
    controller = own_command(config("tests", "-n2", plugins=("xdist",)))
    worker = config("-c", "nonsense", workerinput={"gpuperf_command": controller})
    assert session_command(worker).arguments == ("tests", "-n2", "-n0")
    assert session_command(worker).cwd == "/here"


def event(finding, us: float, make_run, name: str = "") -> MeasuredEvent:
    outcome = finding.outcome
    return MeasuredEvent(
        index=0,
        benchmark=BenchmarkId.of(outcome.benchmark.node_id, name),
        identity=outcome.identity,
        record=make_run(us),
        trials=outcome.trials[0],
    )


def test_runs_join_the_finding_of_their_benchmark(make_finding, make_run) -> None:
    finding, rounds = make_finding(name="a"), Rounds()
    node_id = finding.outcome.benchmark.node_id
    for us in (101.0, 102.0):
        both = [(node_id, event(finding, us, make_run, "a")), (node_id, event(finding, 900.0, make_run, "b"))]
        rounds.add(FreshRun(measured=both))
    joined = with_runs(finding, node_id, rounds)
    assert [run.mean_us for run in joined.outcome.runs] == [100.0, 101.0, 102.0]
    assert len(joined.outcome.trials) == 3
    assert joined.problem == ""


def test_what_a_test_measured_before_it_failed_does_not_count(make_finding, make_run) -> None:
    finding, rounds = make_finding(), Rounds()
    node_id = finding.outcome.benchmark.node_id
    rounds.add(FreshRun(measured=[(node_id, event(finding, 101.0, make_run))]))
    rounds.add(FreshRun(measured=[(node_id, event(finding, 999.0, make_run))], failures={node_id: "it died"}))
    joined = with_runs(finding, node_id, rounds)
    assert [run.mean_us for run in joined.outcome.runs] == [100.0, 101.0]
    assert joined.problem == "it died"


def test_a_benchmark_that_fresh_processes_do_not_make(make_finding) -> None:
    joined = with_runs(make_finding(), "test_a.py::test_a", Rounds())
    assert joined.problem == "the fresh processes ran the test without measuring this benchmark"


class ScriptedServer:
    """In place of a process that forks are made of: notes what is asked of it, by the folder it is started in."""

    done: list[tuple[str, str]]
    refusing: set[str]

    def __init__(self, command: FreshCommand, start_seconds: float) -> None:
        self.name = command.cwd
        self.done.append(("start", self.name))

    def await_ready(self) -> None:
        self.done.append(("await", self.name))
        if self.name in self.refusing:
            raise ForkUnavailableError("CUDA is in use")


def arms_of(monkeypatch, *, refusing: set[str] = frozenset(), device: str = "cuda", start: str = "auto") -> list[Arm]:
    monkeypatch.setattr(ScriptedServer, "done", [], raising=False)
    monkeypatch.setattr(ScriptedServer, "refusing", refusing, raising=False)
    monkeypatch.setattr(rounds_module, "ForkLauncher", ScriptedServer)
    settings = SimpleNamespace(fresh_start=start, fresh_timeout=60.0)
    commands = (FreshCommand(head=("python",), arguments=(), cwd=name) for name in ("old", "new"))
    return [Arm(command, settings, lambda: device) for command in commands]  # type: ignore[arg-type]


def test_both_sides_start_before_either_is_waited_for(monkeypatch) -> None:
    arms = arms_of(monkeypatch)
    start_together(arms)
    assert ScriptedServer.done == [("start", "old"), ("start", "new"), ("await", "old"), ("await", "new")]
    assert not any(arm.forks_given_up for arm in arms)


def test_a_side_that_cannot_be_forked_from_says_why(monkeypatch) -> None:
    arms = arms_of(monkeypatch, refusing={"old"})
    start_together(arms)
    start_together(arms)
    assert [arm.forks_given_up for arm in arms] == [True, False]
    assert arms[0].fork_refusal == "CUDA is in use"
    assert ScriptedServer.done.count(("start", "old")) == 1


@pytest.mark.parametrize(("device", "start"), [("cpu", "auto"), ("cuda", "interpreter")])
def test_nothing_starts_where_there_are_to_be_no_forks(monkeypatch, device: str, start: str) -> None:
    start_together(arms_of(monkeypatch, device=device, start=start))
    assert ScriptedServer.done == []
