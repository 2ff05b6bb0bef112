"""Hook implementations and the fixture: wiring only. Everything else is imported once there is something to measure."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.options import MARKER, Options, add_options, is_benchmark, spell_out_storing_options

if TYPE_CHECKING:
    from pytest_gpuperf.gpubench import GpuBench
    from pytest_gpuperf.session.bench import Bench

OPTIONS: pytest.StashKey[Options] = pytest.StashKey()
BENCH: pytest.StashKey[Bench] = pytest.StashKey()
PLAIN_BENCH: pytest.StashKey[Bench] = pytest.StashKey()
REFUSAL: pytest.StashKey[str] = pytest.StashKey()
WORKER_REFUSAL = "gpuperf_refusal"
ASKED_FOR_LATE = (
    "{}: gpubench was asked for while the test runs (getfixturevalue, getfixture), where no gate looks for it: "
    "name it among the arguments of the test or of a fixture, or mark the test with pytest.mark.perf"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register options and ini keys."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the extension points."""
    from pytest_gpuperf import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser, args: list[str]) -> None:
    """Keep `--gpuperf-save-baseline tests/` from taking the path for a name."""
    if spell_out_storing_options(args):
        # It has been taken for one already in finding the folders whose conftest.py files are loaded now.
        early_config.known_args_namespace.file_or_dir = parser.parse_known_args(args).file_or_dir


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Make a fresh worker deaf to the user's options before any other plugin reads them."""
    folder = config.getoption("gpuperf_fresh_worker") or config.getoption("gpuperf_fork_server")
    if folder:
        from pathlib import Path

        from pytest_gpuperf.session.fresh_worker import neutralise_options

        neutralise_options(config, Path(folder))


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings, and take the role that this process has in a measuring session."""
    config.addinivalue_line(
        "markers",
        "perf(**settings): how the test's benchmarks are measured and judged, such as min_effect=0.03 (gpuperf)",
    )
    options = Options(config)
    config.stash[OPTIONS] = options
    if options.fresh_role or options.session.measuring:
        from pytest_gpuperf.session.roles import install

        config.stash[BENCH] = install(config, options)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse wrong marker arguments whether or not this session measures; deselect for `--gpuperf-only`."""
    options = config.stash[OPTIONS]
    try:
        for item in items:
            if item.get_closest_marker(MARKER) is not None:
                options.for_markers(item.iter_markers(MARKER), item.nodeid)
    except pytest.UsageError as error:
        if not hasattr(config, "workeroutput"):
            raise
        # A worker of pytest-xdist that raises here takes its controller along in an internal error.
        config.workeroutput[WORKER_REFUSAL] = str(error)
        items.clear()
    if options.session.only:
        _keep_benchmarks_only(config, items)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the controller of pytest-xdist, take what a worker refused."""
    refusal = getattr(node, "workeroutput", {}).get(WORKER_REFUSAL)
    if refusal:
        node.config.stash[REFUSAL] = refusal


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Refuse in the controller of pytest-xdist what its workers refused."""
    result = yield
    if REFUSAL in session.config.stash:
        raise pytest.UsageError(session.config.stash[REFUSAL])
    return result


def _keep_benchmarks_only(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = [item for item in items if is_benchmark(item)]
    dropped = [item for item in items if not is_benchmark(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Show the failure of a benchmark as that of its test."""
    if call.excinfo is not None and is_benchmark(item) and not item.config.getoption("fulltrace"):
        from pytest_gpuperf.session.tracebacks import without_own_frames

        call.excinfo = without_own_frames(call.excinfo)


@pytest.fixture
def gpubench(request: pytest.FixtureRequest) -> Generator[GpuBench, None, None]:
    """Call a function and return its output; with --gpuperf also time it and compare it with the stored baseline."""
    if not is_benchmark(request.node):
        # Nobody could have known that this test measures: neither the gate nor --gpuperf-only has counted on it.
        pytest.fail(ASKED_FOR_LATE.format(request.node.nodeid), pytrace=False)
    made = _gpubench_of(request)
    yield made
    made._end_of_test()


def _gpubench_of(request: pytest.FixtureRequest) -> GpuBench:
    from pytest_gpuperf.gpubench import GpuBench

    config = request.config
    options = config.stash[OPTIONS]
    bench = config.stash.get(BENCH, None)
    if bench is None:
        return GpuBench(request.node.nodeid, lambda: _plain_device(config))
    settings = options.for_markers(request.node.iter_markers(MARKER), request.node.nodeid)
    return GpuBench(request.node.nodeid, lambda: bench.backend.device, bench.measurer(request.node, settings))


def _plain_device(config: pytest.Config) -> str:
    from pytest_gpuperf.session.bench import Bench

    if PLAIN_BENCH not in config.stash:
        config.stash[PLAIN_BENCH] = Bench(config, config.stash[OPTIONS])
    return config.stash[PLAIN_BENCH].backend.device
