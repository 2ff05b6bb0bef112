"""Fresh processes: run chosen tests once more, each time in a process of their own, and gather what they measured.

The parent writes a request (which tests, in which random order) into a folder, has a worker launched on it, and reads
the events that the worker appends there. An event is complete when its line is, so that a worker killed in the middle
loses at most the test it was in.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from pytest_gpuperf.measure.plan import BenchmarkId, Identity
from pytest_gpuperf.measure.samples import RunRecord, Trials

POLL_SECONDS = 0.02
EXIT_GRACE_SECONDS = 30.0
HUNG = "gave no sign of life within its time limit (--gpuperf-fresh-timeout) and was ended"


FreshOutcome = Literal["passed", "failed", "skipped", "uncollected"]
SAID = {"failed": "failed", "skipped": "was skipped", "uncollected": "was not collected"}


class StartedEvent(msgspec.Struct, frozen=True, tag="started"):
    """The worker has begun the test with this index in the request."""

    index: int


class MeasuredEvent(msgspec.Struct, frozen=True, tag="measured", kw_only=True):
    """One benchmark of a test that passed."""

    index: int
    benchmark: BenchmarkId
    identity: Identity
    record: RunRecord
    trials: Trials


class FinishedEvent(msgspec.Struct, frozen=True, tag="finished", kw_only=True):
    """The worker is done with the test, teardown included."""

    index: int
    outcome: FreshOutcome
    text: str = ""


class ImportedEvent(msgspec.Struct, frozen=True, tag="imported"):
    """The modules that the worker had imported in the end, by name, with their files."""

    files: dict[str, str]


Event = StartedEvent | MeasuredEvent | FinishedEvent | ImportedEvent

REQUEST_FILE = "request.json"
EVENTS_FILE = "events.jsonl"


@dataclass(frozen=True, slots=True)
class Request:
    """What a worker is asked to run."""

    node_ids: tuple[str, ...]
    seed: int
    list_modules: bool = False
    """Whether the worker is to say which modules it imported from where."""
    list_kernels: bool = False
    """Whether the worker is to record the kernels of each benchmark, after it has measured it."""
    timers: Mapping[str, str] = field(default_factory=dict)
    """The kind of timer that each benchmark, by its key, is to be measured with where `auto` may choose."""

    def write(self, folder: Path) -> None:
        """Store the request; node ids may hold what no strict encoding takes, so they are escaped to ASCII."""
        content = json.dumps(asdict(self), ensure_ascii=True)
        partial = folder / f"{REQUEST_FILE}.partial"
        partial.write_text(content, encoding="ascii")
        partial.rename(folder / REQUEST_FILE)

    @classmethod
    def read(cls, folder: Path) -> Request:
        """Load the request that `write` stored."""
        content = json.loads((folder / REQUEST_FILE).read_text(encoding="ascii"))
        return cls(**{**content, "node_ids": tuple(content["node_ids"])})


class EventWriter:
    """The worker's end: appends events, each flushed as one line."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / EVENTS_FILE).open("ab")

    def write(self, event: Event) -> None:
        """Append one event."""
        self._file.write(msgspec.json.encode(event) + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class EventReader:
    """The parent's end: yields the events completed since the last look."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / EVENTS_FILE
        self._decoder = msgspec.json.Decoder(StartedEvent | MeasuredEvent | FinishedEvent | ImportedEvent)
        self._offset = 0

    def new(self) -> Iterator[Event]:
        """Yield events whose line is complete."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield self._decoder.decode(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a worker may stay silent."""

    start_seconds: float
    test_seconds: Mapping[str, float]
    """For each node id; a test not named here gets `start_seconds`."""

    def for_test(self, node_id: str) -> float:
        """The limit of one test."""
        return self.test_seconds.get(node_id, self.start_seconds)


@dataclass(slots=True)
class FreshRun:
    """What one round through the asked tests brought."""

    measured: list[tuple[str, MeasuredEvent]] = field(default_factory=list)
    """Node id and measurement."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why a test has no measurement in this round: it failed, was skipped, or its process died or hung."""
    uncollected: set[str] = field(default_factory=set)
    """Those of the failures that are tests which do not exist there."""
    modules: dict[str, str] = field(default_factory=dict)
    """The files of the modules that were imported, where that was asked for."""


Progress = Callable[[int, int], None]
"""Called with the number of tests done and asked in this round."""


class Handle(Protocol):
    """A worker that has been started on a request."""

    def ended(self) -> bool:
        """Whether it is over."""

    def end(self) -> None:
        """End it and whatever it started, if it is not over yet."""

    def ending(self) -> str:
        """How it ended, as the rest of a sentence, with the end of its output."""


class Launcher(Protocol):
    """A way to get a fresh process onto the request in a folder."""

    def launch(self, folder: Path) -> Handle:
        """Start a worker on the request stored in `folder`."""


def run_fresh(
    launcher: Launcher,
    node_ids: Sequence[str],
    *,
    seed: int,
    limits: Limits,
    progress: Progress | None = None,
    list_modules: bool = False,
    list_kernels: bool = False,
    timers: Mapping[str, str] | None = None,
) -> FreshRun:
    """Run `node_ids` once in a fresh process, going on in another one past a test that kills or hangs its process."""
    result = FreshRun()
    remaining = list(dict.fromkeys(node_ids))
    asked = len(remaining)
    while remaining:

        def report(done: int, before: int = asked - len(remaining)) -> None:
            if progress is not None:
                progress(before + done, asked)

        request = Request(tuple(remaining), seed, list_modules, list_kernels, timers or {})
        round_ = _Round(request, limits, report)
        done = round_.run(launcher, result)
        if not done:
            result.failures.update(dict.fromkeys(remaining, f"the fresh process {round_.ending}"))
            break
        remaining = [node_id for node_id in remaining if node_id not in done]
    return result


class _Round:
    """One fresh process, from its start to its end."""

    def __init__(self, request: Request, limits: Limits, report: Callable[[int], None]) -> None:
        self._request = request
        self._limits = limits
        self._report = report
        self._done: set[str] = set()
        self._current: str | None = None
        self.ending = ""

    def run(self, launcher: Launcher, result: FreshRun) -> set[str]:
        """Run to the end; return the node ids that are done with, one way or the other."""
        with tempfile.TemporaryDirectory(prefix="gpuperf-fresh-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            self._request.write(folder)
            handle = launcher.launch(folder)
            try:
                hung = self._follow(handle, EventReader(folder), result)
            finally:
                handle.end()
            self.ending = HUNG if hung else handle.ending()
        self._account_for_the_end(result)
        return self._done

    def _follow(self, handle: Handle, events: EventReader, result: FreshRun) -> bool:
        """Take events until the worker ends; return whether it was given up on."""
        deadline = time.monotonic() + self._limits.start_seconds
        while True:
            ended = handle.ended()
            for event in events.new():
                self._take(event, result)
                deadline = time.monotonic() + self._allowance()
            if ended:
                return False
            if time.monotonic() > deadline:
                return True
            time.sleep(POLL_SECONDS)

    def _allowance(self) -> float:
        if self._current is not None:
            return self._limits.for_test(self._current)
        if len(self._done) == len(self._request.node_ids):
            return EXIT_GRACE_SECONDS
        return self._limits.start_seconds

    def _take(self, event: Event, result: FreshRun) -> None:
        if isinstance(event, ImportedEvent):
            result.modules.update(event.files)
            return
        node_id = self._request.node_ids[event.index]
        if isinstance(event, StartedEvent):
            self._current = node_id
        elif isinstance(event, MeasuredEvent):
            result.measured.append((node_id, event))
        else:
            if event.outcome != "passed":
                result.failures[node_id] = f"the test {SAID[event.outcome]} in a fresh process: {event.text}"
            if event.outcome == "uncollected":
                result.uncollected.add(node_id)
            self._current = None
            self._done.add(node_id)
            self._report(len(self._done))

    def _account_for_the_end(self, result: FreshRun) -> None:
        if self._current is not None:
            result.failures[self._current] = f"the fresh process measuring it {self.ending}"
            self._done.add(self._current)
