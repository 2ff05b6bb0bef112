"""What a fresh process does: run the tests it was asked for, in random order, and report what they measured."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from _pytest.runner import runtestprotocol

from pytest_gpuperf.compare.fresh import EventWriter, FinishedEvent, ImportedEvent, MeasuredEvent, Request, StartedEvent
from pytest_gpuperf.compare.launchers import EXIT_FILE, READY_FILE, SESSION_VARIABLE, TURN_PREFIX
from pytest_gpuperf.session.bench import Bench, stable_node_id

TEXT_LIMIT_CHARACTERS = 2000
SERVER_POLL_SECONDS = 0.005
# What these built-in plugins remember from run to run belongs to the user's own session.
_MEMORIES = ("lfplugin", "nfplugin", "stepwiseplugin")
_PR_SET_PDEATHSIG = 1
_NEUTRAL_OPTIONS = {
    "cacheclear": False,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "maxfail": 0,
    "usepdb": False,
    "trace": False,
    "xmlpath": None,
    "log_file": os.devnull,
    "collectonly": False,
    "durations": None,
    "setuponly": False,
    "setupplan": False,
    "gpuperf_profile": None,
    "gpuperf_nvtx": False,
    # Report files of other plugins: pytest-html, pytest-reportlog, pytest-json-report, allure-pytest.
    "htmlpath": None,
    "report_log": None,
    "json_report": False,
    "allure_report_dir": None,
}


def neutralise_options(config: pytest.Config, folder: Path) -> None:
    """Undo the user's options that select, stop, write files or wait for a key: this process only measures.

    Temporary folders go into `folder`: in their usual place each process pushes out those of an earlier session.
    """
    config.option.basetemp = str(folder / "temporary")
    for name, value in _NEUTRAL_OPTIONS.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)
    _look_in_whole_files(config)


def _look_in_whole_files(config: pytest.Config) -> None:
    """Let the arguments only say where to look: the tests to run are asked for by their node ids.

    In another revision a named file, or a named test of it, may not exist, which must not keep the others from running.
    """
    if not config.option.pyargs:
        places = dict.fromkeys(argument.partition("::")[0] for argument in config.args)
        config.args = [place for place in places if (config.invocation_params.dir / place).exists()]


class _Collects:
    """Keeps all that was collected, whatever other plugins deselect, and runs none of it by itself."""

    def __init__(self, config: pytest.Config, bench: Bench) -> None:
        self._bench = bench
        self._broken: dict[str, str] = {}
        """Why a file or folder could not be collected."""
        for name in _MEMORIES:
            if config.pluginmanager.hasplugin(name):
                config.pluginmanager.unregister(name=name)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> object:
        """Outermost: a test that the user's session ran must not be lost to what deselects by chance or by history."""
        collected = list(items)
        result = yield
        items[:] = collected
        return result

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note what cannot be collected: its tests exist, even if nothing can be said of them."""
        if report.failed:
            self._broken[report.nodeid] = report.longreprtext

    def pytest_unconfigure(self) -> None:
        """Release the device."""
        self._bench.close()

    def _run(self, session: pytest.Session, folder: Path) -> None:
        run_request(session.items, self._bench, folder, self._broken)


class FreshWorker(_Collects):
    """The plugin of a new interpreter that runs one request."""

    def __init__(self, config: pytest.Config, bench: Bench, folder: Path) -> None:
        super().__init__(config, bench)
        self._folder = folder

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the request in place of pytest's own loop."""
        _end_with(_session_pid())
        self._run(session, self._folder)
        return True


class ForkServer(_Collects):
    """The plugin of a process that collects once and forks for every request."""

    def __init__(self, config: pytest.Config, bench: Bench, home: Path) -> None:
        super().__init__(config, bench)
        self._home = home

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Serve requests until the parent is gone (which ends this process itself when it has no more)."""
        owner = _session_pid()
        _end_with(owner)
        _import_for_all()
        refusal = _why_not_to_fork()
        _write_whole(self._home / READY_FILE, {"refusal": refusal})
        turn = 0
        while not refusal and _is_running(owner):
            link = self._home / f"{TURN_PREFIX}{turn}"
            if link.is_symlink():
                self._serve(session, link.resolve())
                turn += 1
            else:
                time.sleep(SERVER_POLL_SECONDS)
        return True

    def _serve(self, session: pytest.Session, folder: Path) -> None:
        server = os.getpid()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _end_with(server)
                self._run(session, folder)
                self._bench.close()
                code = 0
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="backslashreplace"))
            finally:
                # Nothing of the server's own end (caches, reports, exit handlers) is this child's to do.
                os._exit(code)
        _, status = os.waitpid(child, 0)
        _write_whole(folder / EXIT_FILE, {"code": os.waitstatus_to_exitcode(status)})


def run_request(items: Sequence[pytest.Item], bench: Bench, folder: Path, broken: Mapping[str, str]) -> None:
    """Run the tests that the request in `folder` asks for, out of `items`, and write there what became of them.

    `broken` says why files or folders, by their node ids, could not be collected.
    """
    request = Request.read(folder)
    bench.lists_kernels = request.list_kernels
    bench.stored_timer = lambda benchmark: request.timers.get(benchmark.key)
    events = EventWriter(folder)
    by_id = {stable_node_id(item): item for item in items}
    indices = list(range(len(request.node_ids)))
    random.Random(request.seed).shuffle(indices)
    for index in indices:
        if request.node_ids[index] not in by_id:
            events.write(_absent(index, request.node_ids[index], broken))
    order = [by_id[request.node_ids[index]] for index in indices if request.node_ids[index] in by_id]
    if order:
        order[0].config.pluginmanager.register(_Turn(request, bench, events), "gpuperf-turn")
    for item, nextitem in zip(order, [*order[1:], None], strict=True):
        item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    if request.list_modules:
        events.write(ImportedEvent(imported_files()))
    events.close()


class _Turn:
    """Runs the tests of a request inside pytest's protocol, since a session's own run has its wrappers around it too.

    They catch warnings, set time limits and more, which takes time in the callable itself.
    """

    def __init__(self, request: Request, bench: Bench, events: EventWriter) -> None:
        self._indices = {node_id: index for index, node_id in enumerate(request.node_ids)}
        self._bench = bench
        self._events = events

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run one test and write what it measured."""
        index = self._indices[stable_node_id(item)]
        self._events.write(StartedEvent(index=index))
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        self._bench.after_test()
        failed = self._bench.subtests.failed_in(item)
        outcome, text = ("failed", "a subtest failed") if failed else _fate(reports)
        for one in self._bench.take(stable_node_id(item)):
            if outcome == "passed":
                record = msgspec.structs.replace(one.record, fresh=True)
                measured = MeasuredEvent(
                    index=index, benchmark=one.benchmark, identity=one.identity, record=record, trials=one.trials
                )
                self._events.write(measured)
        self._events.write(FinishedEvent(index=index, outcome=outcome, text=text))  # type: ignore[arg-type]
        return True


def _fate(reports: Sequence[pytest.TestReport]) -> tuple[str, str]:
    for report in reports:
        if not report.passed:
            return report.outcome, _why(report)
    return "passed", ""


def _why(report: pytest.TestReport) -> str:
    """Return what a report that did not pass says: the error in one line, and below it where it comes from."""
    if isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        return _bounded(f"{reason.removeprefix('Skipped: ')} ({path}:{line})")
    text = _bounded(report.longreprtext or str(report.longrepr))
    crash = getattr(report.longrepr, "reprcrash", None)
    return text if crash is None else "\n".join([_bounded(crash.message.partition("\n")[0]), text])


def _bounded(text: str) -> str:
    """Return the end of a text, which is where the error stands, with what UTF-8 has no form for escaped."""
    return text[-TEXT_LIMIT_CHARACTERS:].encode("utf-8", "backslashreplace").decode("utf-8")


def _absent(index: int, node_id: str, broken: Mapping[str, str]) -> FinishedEvent:
    for place, why in broken.items():
        if node_id == place or node_id.startswith((f"{place}::", f"{place}/")) or place in ("", "."):
            return FinishedEvent(index=index, outcome="failed", text=_bounded(why))
    return FinishedEvent(index=index, outcome="uncollected", text="there is no such test there")


def imported_files() -> dict[str, str]:
    """Return the files of the modules that this process has imported, by the modules' names."""
    files = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    return {name: str(Path(file).resolve()) for name, file in files if isinstance(file, str)}


def _session_pid() -> int:
    """Return the process that this one works for."""
    return int(os.environ.get(SESSION_VARIABLE, os.getppid()))


def _end_with(owner: int) -> None:
    """Have the kernel end this process when its parent dies, however that happens; only where there is such a call.

    It ends at once where `owner`, that parent, is dead already: nothing would tell it any more.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if not _is_running(owner):
        os._exit(1)


def _is_running(pid: int) -> bool:
    """Whether a process is there and not dead; one that is dead may wait to be looked at."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except (OSError, IndexError):
        return True  # another user's, or there is no such place to look at
    return state not in ("Z", "X")


def _import_for_all() -> None:
    """Import what every fork would import for itself: to summarise its trials, and on torch's first custom operator."""
    import scipy.special  # noqa: F401

    if "torch" in sys.modules:
        importlib.import_module("torch._dynamo")


def _why_not_to_fork() -> str:
    """Say what forbids forking this process, empty where nothing does."""
    torch = sys.modules.get("torch")
    if torch is None:
        return ""
    # Counting devices is enough to spoil CUDA for every fork, and only a fork can tell that it is.
    spoilt = torch.cuda.is_initialized() or _in_a_fork(lambda: torch.cuda._is_in_bad_fork())
    return "collecting the tests already used CUDA, which cannot be used in a fork then" if spoilt else ""


def _in_a_fork(question: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        answer = True
        try:
            answer = question()
        finally:
            os._exit(int(answer))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) != 0


def _write_whole(path: Path, content: object) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content), encoding="utf-8")
    partial.rename(path)
