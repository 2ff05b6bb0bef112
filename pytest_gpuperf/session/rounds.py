"""Fresh runs of chosen tests: the command of this session started again, with its progress shown."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType

import msgspec
import pytest

from pytest_gpuperf.compare.fresh import FreshRun, Limits, MeasuredEvent, Progress, run_fresh
from pytest_gpuperf.compare.identity import difference
from pytest_gpuperf.compare.launchers import ForkLauncher, ForkUnavailableError, FreshCommand, InterpreterLauncher
from pytest_gpuperf.measure.plan import timer_kind
from pytest_gpuperf.report.units import count
from pytest_gpuperf.session.findings import Finding
from pytest_gpuperf.settings import SessionSettings

TIMES_OWN_DURATION = 10.0
XDIST_INPUT_KEY = "gpuperf_command"


@dataclass(slots=True)
class Rounds:
    """What some rounds of fresh runs brought, by node id."""

    measured: dict[str, list[MeasuredEvent]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)

    def add(self, run: FreshRun) -> None:
        """Take one more round; what a test measured before it failed does not count."""
        for node_id, event in run.measured:
            if node_id not in run.failures:
                self.measured.setdefault(node_id, []).append(event)
        for node_id, why_not in run.failures.items():
            self.failures.setdefault(node_id, []).append(why_not)


class Arm:
    """One tree of code that fresh processes run: how they start, and the process that forks of it are made from."""

    def __init__(self, command: FreshCommand, settings: SessionSettings, device_kind: Callable[[], str]) -> None:
        self._command = command
        self._settings = settings
        self._device_kind = device_kind
        self._interpreters = InterpreterLauncher(command)
        self._forks: ForkLauncher | None = None
        self._no_forks = settings.fresh_start == "interpreter" or not hasattr(os, "fork")
        self._seed = 0
        self.fork_refusal = ""
        """Why forks were asked for and not used."""

    def run_once(
        self,
        node_ids: Sequence[str],
        limits: Limits,
        progress: Progress | None = None,
        *,
        timers: Mapping[str, str],
        list_modules: bool = False,
        list_kernels: bool = False,
    ) -> FreshRun:
        """Run the tests once in a fresh process, in another order than the last time.

        `timers` gives the kind of timer of each benchmark by its key, so that all processes choose alike.
        """
        self._seed += 1
        run = functools.partial(
            run_fresh,
            seed=self._seed,
            limits=limits,
            list_modules=list_modules,
            list_kernels=list_kernels,
            timers=timers,
        )
        forks = self._fork_launcher()
        if forks is None:
            return run(self._interpreters, node_ids, progress=progress)
        first = run(forks, node_ids, progress=progress)
        suspicious = [node_id for node_id in first.failures if node_id not in first.uncollected]
        if not suspicious:
            return first
        # Was it the test, or the fork? A new interpreter tells; where it was the fork, it is what counts from now on.
        self.close()
        again = run(self._interpreters, list(first.failures))
        self._no_forks = again.failures.keys() != first.failures.keys()
        passed = [(node_id, event) for node_id, event in first.measured if node_id not in first.failures]
        return replace(again, measured=passed + again.measured, modules={**first.modules, **again.modules})

    @property
    def forks_given_up(self) -> bool:
        """Whether every further process will be a new interpreter."""
        return self._no_forks

    def give_up_forks(self) -> None:
        """Start nothing but new interpreters from now on."""
        self.close()
        self._no_forks = True

    def close(self) -> None:
        """End the process that forks are made of."""
        if self._forks is not None:
            self._forks.close()
            self._forks = None

    def start(self) -> None:
        """Start the process that forks are made of, if there is to be one, and do not wait for it."""
        forks = not self._no_forks and (self._settings.fresh_start != "auto" or self._device_kind() != "cpu")
        if forks and self._forks is None:
            self._forks = ForkLauncher(self._command, self._settings.fresh_timeout)

    def await_ready(self) -> None:
        """Wait until forks can be made, or turn out not to be possible."""
        if self._forks is None:
            return
        try:
            self._forks.await_ready()
        except ForkUnavailableError as error:
            self._forks = None
            self._no_forks = True
            self.fork_refusal = str(error)

    def _fork_launcher(self) -> ForkLauncher | None:
        self.start()
        self.await_ready()
        return self._forks


def start_together(arms: Collection[Arm]) -> None:
    """Start what the arms' forks are made of at once; return when all have imported, which would disturb timing."""
    for arm in arms:
        arm.start()
    for arm in arms:
        arm.await_ready()


class FreshRounds:
    """Fresh runs of this session's own tree."""

    def __init__(self, config: pytest.Config, settings: SessionSettings, device_kind: Callable[[], str]) -> None:
        self._config = config
        self._settings = settings
        self._arm = Arm(session_command(config), settings, device_kind)
        self._listed: set[str] = set()
        """Tests whose kernels a fresh process was asked to record: one a session is enough, its profiler takes seconds
        to start."""

    def run(
        self,
        node_ids: Sequence[str],
        rounds: int,
        *,
        why: str,
        timers: Mapping[str, str],
        own_seconds: Mapping[str, float] | None = None,
    ) -> Rounds:
        """Run the tests `rounds` times, each time in a fresh process and in another order.

        A test that failed, died or hung once is not run again: there is no verdict on it any more.
        `own_seconds` says how long each test took in this session, from which its time limit is derived; `timers`,
        by the benchmarks' keys, what kind of timer they had in it.
        """
        result = Rounds()
        progress = ProgressLine(self._config, why, len(node_ids), rounds)
        limits = limits_for(node_ids, own_seconds or {}, self._settings)
        for number in range(rounds):
            progress.show(number, 0)
            sound = [node_id for node_id in node_ids if node_id not in result.failures]
            if sound:
                show, unlisted = functools.partial(progress.show, number), set(sound) - self._listed
                result.add(self._arm.run_once(sound, limits, show, timers=timers, list_kernels=bool(unlisted)))
                self._listed |= unlisted
        progress.close()
        return result

    def close(self) -> None:
        """End what was started."""
        self._arm.close()


def limits_for(node_ids: Sequence[str], own_seconds: Mapping[str, float], settings: SessionSettings) -> Limits:
    """Return how long a fresh process may stay silent."""
    least = settings.fresh_timeout
    return Limits(
        start_seconds=least,
        test_seconds={n: least + TIMES_OWN_DURATION * own_seconds.get(n, 0.0) for n in node_ids},
    )


def timers_of(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the kind of timer that each benchmark was measured with, by its key."""
    return {finding.outcome.benchmark.key: timer_kind(finding.outcome.identity) for finding in findings}


def with_runs(finding: Finding, node_id: str, rounds: Rounds) -> Finding:
    """Return the finding with the runs that the rounds added; its decision is to be taken anew.

    A run that was measured in another way than the first one (by another timer, say) is left out, and that is noted.
    """
    outcome = finding.outcome
    events = [event for event in rounds.measured.get(node_id, []) if event.benchmark == outcome.benchmark]
    reasons = rounds.failures.get(node_id, [])
    problem = finding.problem or (reasons[0] if reasons else "")
    if not problem and not events:
        problem = "the fresh processes ran the test without measuring this benchmark"
    identity = outcome.identity if outcome.runs or not events else events[0].identity
    alike = [event for event in events if event.identity == identity]
    records = [*outcome.runs, *(event.record for event in alike)]
    drifted = (event.identity for event in events if event.identity.workload != identity.workload)
    drift = next((difference(identity, other) for other in drifted), finding.drift)
    if len(alike) < len(events):
        other = next(event.identity for event in events if event.identity != identity)
        note = f"{len(events) - len(alike)} of {len(events)} fresh runs are left out: {difference(identity, other)}"
        records[0] = msgspec.structs.replace(records[0], notes=(*records[0].notes, note))
    return msgspec.structs.replace(
        finding,
        outcome=msgspec.structs.replace(
            outcome,
            identity=identity,
            runs=tuple(records),
            trials=(*outcome.trials, *(event.trials for event in alike)),
        ),
        problem=problem,
        drift=drift,
    )


def session_command(config: pytest.Config) -> FreshCommand:
    """Return the command that this session was started with, made fit for a worker."""
    given: dict[str, object] = getattr(config, "workerinput", {}).get(XDIST_INPUT_KEY) or own_command(config)
    return FreshCommand(
        head=tuple(given["head"]),  # type: ignore[arg-type]
        arguments=tuple(given["arguments"]),  # type: ignore[arg-type]
        cwd=str(given["cwd"]),
    )


def own_command(config: pytest.Config) -> dict[str, object]:
    """Return the parts of this process's command as plain values, which pytest-xdist can hand to its workers."""
    return {
        "head": _head(),
        "arguments": _with_options(
            [str(argument) for argument in config.invocation_params.args], _neutralisers(config)
        ),
        "cwd": str(config.invocation_params.dir),
    }


def _with_options(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the arguments with more options, ahead of what a `--` keeps from being one."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:at], *options, *arguments[at:]]


def _head() -> list[str]:
    # Private, but what multiprocessing itself starts its interpreters with: -O, -W, -X and the like.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    main: ModuleType | None = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name.split(".")[0] == "pytest":
        return [sys.executable, *flags, "-m", "pytest"]
    # `python -m` and `-c` put the working directory on the import path; the `pytest` script does not.
    start = "import sys; '' in sys.path[:1] and sys.path.pop(0); import pytest; sys.exit(pytest.main())"
    return [sys.executable, *flags, "-c", start]


def _neutralisers(config: pytest.Config) -> list[str]:
    """Arguments that undo what must not happen in a worker and can only be undone before options are used."""
    has = config.pluginmanager.hasplugin
    undo = []
    if has("xdist"):
        undo.append("-n0")
    if has("_cov") or has("pytest_cov"):
        undo.append("--no-cov")
    return undo


class ProgressLine:
    """One line that is rewritten on a terminal, and printed once elsewhere."""

    def __init__(self, config: pytest.Config, why: str, tests: int, rounds: int) -> None:
        reporter: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
        # The workers of pytest-xdist have a reporter that writes nowhere.
        silent = hasattr(config, "workerinput") or config.getoption("verbose", 0) < 0
        self._reporter = None if silent else reporter
        processes = count(rounds, "fresh process", "fresh processes")
        self._what = f"gpuperf: {why}: {count(tests, 'test')} in {processes}"
        self._tests = tests
        self._rewritten = self._reporter is not None and self._reporter.isatty
        if self._reporter is not None:
            self._reporter.ensure_newline()
            if not self._rewritten:
                self._reporter.write_line(self._what)

    def show(self, rounds_done: int, tests_done: int, _asked: int = 0) -> None:
        """Say how far it is."""
        if self._reporter is not None and self._rewritten:
            self._reporter.rewrite(f"{self._what}, run {rounds_done + 1}: {tests_done}/{self._tests}", erase=True)

    def close(self) -> None:
        """Leave the line behind."""
        if self._reporter is not None and self._rewritten:
            self._reporter.rewrite(f"{self._what}, done", erase=True)
            self._reporter.line("")
