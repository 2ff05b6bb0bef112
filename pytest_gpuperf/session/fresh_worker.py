"""What a fresh process does: run the tests it was asked for, in random order, and report what they measured."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from pytest_gpuperf.compare.fresh import EventWriter, FinishedEvent, MeasuredEvent, Request, StartedEvent
from pytest_gpuperf.session.bench import Bench, stable_node_id

TEXT_LIMIT_CHARACTERS = 2000
# What these built-in plugins remember from run to run belongs to the user's own session.
_MEMORIES = ("lfplugin", "nfplugin", "stepwiseplugin")
_NEUTRAL_OPTIONS = {
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "maxfail": 0,
    "usepdb": False,
    "trace": False,
    "xmlpath": None,
    "collectonly": False,
    "durations": None,
    "setuponly": False,
    "setupplan": False,
}


def neutralise_options(config: pytest.Config) -> None:
    """Undo the user's options that select, stop, write files or wait for a key: this process only measures."""
    for name, value in _NEUTRAL_OPTIONS.items():
        if hasattr(config.option, name):
            setattr(config.option, name, value)


class FreshWorker:
    """The plugin of a worker process."""

    def __init__(self, config: pytest.Config, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._request = Request.read(folder)
        self._events = EventWriter(folder)
        for name in _MEMORIES:
            if config.pluginmanager.hasplugin(name):
                config.pluginmanager.unregister(name=name)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> object:
        """Keep the asked tests only, and shuffle them, after every other plugin has had its say."""
        # Outermost, and with the list as collected: a test the user's session ran must not be lost to -k or to a
        # plugin that deselects by what an earlier session did.
        collected = list(items)
        result = yield
        asked = {node_id: index for index, node_id in enumerate(self._request.node_ids)}
        chosen = {stable_node_id(item): item for item in collected if stable_node_id(item) in asked}
        for node_id, index in asked.items():
            if node_id not in chosen:
                self._finish(index, "failed", "it was not collected there")
        order = list(chosen.values())
        random.Random(self._request.seed).shuffle(order)
        items[:] = order
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run one test and report what it measured."""
        node_id = stable_node_id(item)
        index = self._request.node_ids.index(node_id)
        self._events.write(StartedEvent(index=index))
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        self._bench.after_test()
        outcome, text = _fate(reports)
        for one in self._bench.take(node_id):
            if outcome == "passed":
                self._events.write(
                    MeasuredEvent(
                        index=index,
                        benchmark=one.benchmark,
                        identity=one.identity,
                        record=one.record,
                        trials=one.trials,
                    )
                )
        self._finish(index, outcome, text)
        return True

    def pytest_unconfigure(self) -> None:
        """Release the device."""
        self._events.close()
        self._bench.close()

    def _finish(self, index: int, outcome: str, text: str) -> None:
        self._events.write(FinishedEvent(index=index, outcome=outcome, text=text))  # type: ignore[arg-type]


def _fate(reports: Sequence[pytest.TestReport]) -> tuple[str, str]:
    for report in reports:
        if not report.passed:
            text = report.longreprtext or str(report.longrepr)
            return report.outcome, text[-TEXT_LIMIT_CHARACTERS:]
    return "passed", ""
