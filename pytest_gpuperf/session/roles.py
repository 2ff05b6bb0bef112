"""The plugins of a measuring pytest process by its role: alone, controller or worker of pytest-xdist, or fresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.options import Options, is_benchmark
from pytest_gpuperf.report.summary import gpuperf_section, machine_changes, section_title
from pytest_gpuperf.session.bench import Bench, stable_node_id
from pytest_gpuperf.session.closing import Closed, Closing
from pytest_gpuperf.session.context import Context
from pytest_gpuperf.session.fresh_worker import ForkServer, FreshWorker
from pytest_gpuperf.session.leaving import end_process
from pytest_gpuperf.session.ledger import Ledger, Selection
from pytest_gpuperf.session.rounds import XDIST_INPUT_KEY, own_command
from pytest_gpuperf.session.testing import Held, Testing


def install(config: pytest.Config, options: Options) -> Bench:
    """Register what this process's role needs; return its measuring end."""
    bench = Bench(config, options)
    register = config.pluginmanager.register
    register(bench.subtests, "gpuperf-subtests")
    if options.fresh_worker is not None:
        register(FreshWorker(config, bench, Path(options.fresh_worker)), "gpuperf-fresh-worker")
        return bench
    if options.fork_server is not None:
        register(ForkServer(config, bench, Path(options.fork_server)), "gpuperf-fork-server")
        return bench
    context = Context(config, options, bench)
    selection = Selection()
    register(selection, "gpuperf-selection")
    if hasattr(config, "workerinput"):
        register(RunsTests(context, can_hold=False), "gpuperf-tests")
        return bench
    ledger = Ledger()
    register(ledger, "gpuperf-ledger")
    if _is_xdist_controller(config):
        # Complete by the time that the controller itself decides: its workers are down then.
        context.collected = lambda: tuple(selection.selected)
        register(Controls(context), "gpuperf-controller")
        tests = None
    else:
        # With -x the session must stop at a regression, so it cannot wait until the end to find out.
        stops = config.getoption("maxfail") or config.getoption("stepwise", False)
        tests = RunsTests(context, can_hold=not stops)
        register(tests, "gpuperf-tests")
    register(Tells(context, Closing(context, ledger, selection), tests), "gpuperf-tells")
    return bench


def _is_xdist_controller(config: pytest.Config) -> bool:
    return config.pluginmanager.hasplugin("dsession") or bool(config.getoption("tx", None))


def _only_looks(config: pytest.Config) -> bool:
    """Whether this session runs no test: --collect-only, --setup-only, --setup-plan."""
    return bool(config.option.collectonly or config.getoption("setuponly", False))


class RunsTests:
    """Runs the benchmark tests of this process."""

    def __init__(self, context: Context, *, can_hold: bool) -> None:
        self._context = context
        self._can_hold = can_hold
        self._testing: Testing | None = None
        self._exit_status = int(pytest.ExitCode.INTERNAL_ERROR)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Load the baseline as soon as it is known that it is needed, before anything is measured in vain."""
        context = self._context
        benchmarks = [item for item in session.items if is_benchmark(item)]
        if not benchmarks or _only_looks(session.config):
            return
        node_ids = tuple(stable_node_id(item) for item in benchmarks)
        context.collected = lambda: node_ids
        context.bench.stored_timer = context.gate.stored_timer
        if not hasattr(session.config, "workerinput"):
            context.refuse_what_cannot_be_done()
        self._testing = Testing(
            context.settings,
            context.bench,
            context.gate,
            context.rounds,
            context.fails,
            can_hold=self._can_hold,
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Take benchmark tests; leave all others to pytest."""
        if self._testing is None or not is_benchmark(item):
            return None
        self._testing.run(item, nextitem)
        return True

    def take_held(self) -> list[Held]:
        """Return and forget the tests whose reports wait for the session's end."""
        return [] if self._testing is None else self._testing.take_held()

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Note how the session ends, in case that the process cannot end by itself."""
        self._exit_status = int(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Release the device and what was started; where the device hangs, end the process, and its kernels with it."""
        self._context.close()
        if self._context.bench.hangs:
            end_process(self._exit_status)


class Controls:
    """What only the controller of pytest-xdist does."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def pytest_sessionstart(self) -> None:
        """Refuse a baseline that cannot be used here, where the message is seen."""
        _ = self._context.gate
        self._context.refuse_what_cannot_be_done()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Tell a worker how this session was started, so that it can start fresh processes."""
        node.workerinput[XDIST_INPUT_KEY] = own_command(self._context.config)  # type: ignore[attr-defined]

    def pytest_unconfigure(self) -> None:
        """Release the device and what was started."""
        self._context.close()


class Tells:
    """Closes the session and prints its section."""

    def __init__(self, context: Context, closing: Closing, tests: RunsTests | None) -> None:
        self._context = context
        self._closing = closing
        self._tests = tests
        self._closed: Closed | None = None
        self._abandoned = 0
        self._ended_early = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> object:
        """After the tests: confirm the suspects, then close."""
        try:
            try:
                result = yield
            except (session.Failed, session.Interrupted):
                # Stopped by -x or by a plugin: what was measured is still told.
                self._close(session, stopped=True)
                raise
            self._close(session, stopped=False)
        except BaseException:
            self._abandoned += len(self._held())
            self._ended_early = self._closed is None and not self._closing.nothing_ran
            raise
        return result

    def _close(self, session: pytest.Session, *, stopped: bool) -> None:
        if _only_looks(session.config) or (stopped and self._closing.nothing_ran):
            return
        held = self._held()
        self._abandoned = len(held)  # unless they are reported below, before anything interrupts
        self._closed = self._closing.close(held, stopped=stopped)
        if self._closed.errors:
            raise pytest.UsageError("\n".join(self._closed.errors))

    def _held(self) -> list[Held]:
        return [] if self._tests is None else self._tests.take_held()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table and what belongs to it."""
        if self._closed is None and (lost := self._what_was_lost()):
            terminalreporter.section("gpuperf", sep="-")
            terminalreporter.write_line(f"The session ended before {lost}; nothing was stored.")
        if self._closed is None or not (self._closed.outcomes or self._closed.accounting.baseline):
            return
        closed, settings = self._closed, self._context.settings
        terminalreporter.section(section_title(closed.machine, self._context.gate.name), sep="-")
        lines = gpuperf_section(
            closed.outcomes,
            closed.accounting,
            baseline_name=self._context.baseline_name,
            machine_changes=self._machine_changes(closed),
            notes=closed.notes,
            storing=settings.stored_name is not None or settings.against is not None,
            sort=settings.sort,
            group_by=settings.group_by,
            columns=settings.columns,
            width=terminalreporter._tw.fullwidth,
            color=terminalreporter.hasmarkup,
        )
        for line in [*lines, *self._extra_lines(closed)]:
            terminalreporter.write_line(line)

    def _what_was_lost(self) -> str:
        if self._abandoned:
            return f"{self._abandoned} unsettled test{' was' if self._abandoned == 1 else 's were'} reported"
        storing = self._context.settings.stored_name is not None
        return "all runs of the baseline were measured" if storing and self._ended_early else ""

    def _machine_changes(self, closed: Closed) -> list[str]:
        baseline = self._context.gate.baseline
        return (
            [] if baseline is None else machine_changes([s.machine for s in baseline.sessions.values()], closed.machine)
        )

    def _extra_lines(self, closed: Closed) -> list[str]:
        hook = self._context.config.hook
        sections = hook.pytest_gpuperf_report_section(config=self._context.config, outcomes=closed.outcomes)
        return [line for lines in sections for line in lines or ()]
