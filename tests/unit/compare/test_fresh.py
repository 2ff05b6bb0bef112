"""Fresh runs by a worker that is only pretended: events, deaths, silence, and what is asked of the next process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.compare import fresh
from pytest_gpuperf.compare.fresh import (
    Event,
    EventReader,
    EventWriter,
    FinishedEvent,
    FreshRun,
    Limits,
    MeasuredEvent,
    Request,
    StartedEvent,
    run_fresh,
)
from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Workload
from pytest_gpuperf.measure.samples import RunRecord, Trials

RUN = RunRecord(trials=2, log_median=0.0, mean_us=1.0, sd_us=0.1, min_us=1.0, p5_us=1.0, p95_us=1.0, half_width_us=0.1)
LIMITS = Limits(start_seconds=60.0, test_seconds={})


def measured(index: int, node_id: str) -> MeasuredEvent:
    return MeasuredEvent(
        index=index,
        benchmark=BenchmarkId.of(node_id),
        identity=Identity(timer="events", cache="cold", workload=Workload()),
        record=RUN,
        trials=Trials(times_us=(1.0, 1.0), batch_indices=(0, 0)),
    )


Behaviour = Callable[[int, str], Sequence[Event] | None]


class Pretended:
    """A launcher whose worker writes all its events at once; it dies in the test for which the behaviour says None."""

    def __init__(self, behaviour: Behaviour, *, silent: bool = False) -> None:
        self.requests: list[Request] = []
        self.ended_by_us = 0
        self._behaviour = behaviour
        self._silent = silent

    def launch(self, folder: Path) -> Pretended:
        request = Request.read(folder)
        self.requests.append(request)
        writer = EventWriter(folder)
        for index, node_id in enumerate(request.node_ids):
            writer.write(StartedEvent(index=index))
            events = self._behaviour(index, node_id)
            if events is None:
                break
            for event in events:
                writer.write(event)
        writer.close()
        return self

    def ended(self) -> bool:
        return not self._silent

    def end(self) -> None:
        self.ended_by_us += 1

    def ending(self) -> str:
        return "ended with exit code 7"


def passes(index: int, node_id: str) -> list[Event]:
    return [measured(index, node_id), FinishedEvent(index=index, outcome="passed")]


def ids(run: FreshRun) -> list[str]:
    return [node_id for node_id, _ in run.measured]


def test_one_process_runs_them_all() -> None:
    launcher = Pretended(passes)
    run = run_fresh(launcher, ["a", "b", "a"], seed=3, limits=LIMITS)
    assert ids(run) == ["a", "b"]
    assert not run.failures
    assert [(request.node_ids, request.seed) for request in launcher.requests] == [(("a", "b"), 3)]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("failed", "the test failed in a fresh process: why"),
        ("skipped", "the test was skipped in a fresh process: why"),
    ],
)
def test_a_test_that_does_not_pass_there(outcome: str, said: str) -> None:
    def behaviour(index: int, node_id: str) -> list[Event]:
        if node_id == "b":
            return [FinishedEvent(index=index, outcome=outcome, text="why")]  # type: ignore[arg-type]
        return passes(index, node_id)

    run = run_fresh(Pretended(behaviour), ["a", "b", "c"], seed=1, limits=LIMITS)
    assert ids(run) == ["a", "c"]
    assert run.failures == {"b": said}


def test_a_death_costs_its_own_test_only() -> None:
    launcher = Pretended(lambda index, node_id: None if node_id == "b" else passes(index, node_id))
    run = run_fresh(launcher, ["a", "b", "c", "d"], seed=1, limits=LIMITS)
    assert ids(run) == ["a", "c", "d"]
    assert run.failures == {"b": "the fresh process measuring it ended with exit code 7"}
    assert [request.node_ids for request in launcher.requests] == [("a", "b", "c", "d"), ("c", "d")]


def test_every_test_dies() -> None:
    run = run_fresh(Pretended(lambda *_: None), ["a", "b"], seed=1, limits=LIMITS)
    assert run.failures.keys() == {"a", "b"}
    assert not run.measured


def test_a_process_that_does_not_even_start() -> None:
    class Stillborn(Pretended):
        def launch(self, folder: Path) -> Pretended:
            self.requests.append(Request.read(folder))
            return self

    launcher = Stillborn(passes)
    run = run_fresh(launcher, ["a", "b"], seed=1, limits=LIMITS)
    assert len(launcher.requests) == 1
    assert run.failures == dict.fromkeys(["a", "b"], "the fresh process ended with exit code 7")


def test_silence_beyond_the_limit_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**6, 5))
    monkeypatch.setattr(fresh.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(fresh.time, "sleep", lambda _: None)
    launcher = Pretended(lambda index, node_id: None if node_id == "b" else passes(index, node_id), silent=True)
    run = run_fresh(launcher, ["a", "b"], seed=1, limits=Limits(start_seconds=10.0, test_seconds={"b": 100.0}))
    assert run.failures == {"b": f"the fresh process measuring it {fresh.HUNG}"}
    assert ids(run) == ["a"]
    assert launcher.ended_by_us == 1


def test_the_folder_is_gone_and_the_process_ended_when_interrupted(tmp_path: Path) -> None:
    folders: list[Path] = []

    class Interrupted(Pretended):
        def launch(self, folder: Path) -> Pretended:
            folders.append(folder)
            return self

        def ended(self) -> bool:
            raise KeyboardInterrupt

    launcher = Interrupted(passes)
    with pytest.raises(KeyboardInterrupt):
        run_fresh(launcher, ["a"], seed=1, limits=LIMITS)
    assert launcher.ended_by_us == 1
    assert not folders[0].exists()


def test_progress_counts_over_all_processes() -> None:
    seen: list[tuple[int, int]] = []
    launcher = Pretended(lambda index, node_id: None if node_id == "b" else passes(index, node_id))
    run_fresh(launcher, ["a", "b", "c"], seed=1, limits=LIMITS, progress=lambda done, of: seen.append((done, of)))
    assert seen[0] == (1, 3)
    assert seen[-1] == (3, 3)


def test_an_event_counts_once_its_line_is_complete(tmp_path: Path) -> None:
    writer, reader = EventWriter(tmp_path), EventReader(tmp_path)
    writer.write(StartedEvent(index=0))
    assert list(reader.new()) == [StartedEvent(index=0)]
    assert list(reader.new()) == []
    events = tmp_path / fresh.EVENTS_FILE
    writer.write(measured(0, "a"))
    writer.close()
    whole = events.read_bytes()
    events.write_bytes(whole[:-5])
    assert list(reader.new()) == []
    events.write_bytes(whole)
    assert [type(event) for event in reader.new()] == [MeasuredEvent]


def test_no_file_yet_is_no_event(tmp_path: Path) -> None:
    assert list(EventReader(tmp_path / "nowhere").new()) == []


@given(st.lists(st.text(st.characters(codec=None))), st.integers(0, 2**63))
def test_requests_hold_ids_of_every_kind(
    tmp_path_factory: pytest.TempPathFactory, node_ids: list[str], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("request")
    request = Request(node_ids=tuple(node_ids), seed=seed)
    request.write(folder)
    assert Request.read(folder) == request
    json.loads((folder / fresh.REQUEST_FILE).read_bytes().decode("ascii"))


def test_limits_of_tests_that_are_not_named() -> None:
    limits = Limits(start_seconds=5.0, test_seconds={"a": 50.0})
    assert (limits.for_test("a"), limits.for_test("b")) == (50.0, 5.0)
