"""Unrolled calls in one CUDA graph: what a short kernel takes without gaps between launches, and without the host.

A trial is one replay between two events, whose floor is shared by all its calls. Cold, the cache is flushed before the
replay and every call in it has inputs and outputs of its own, so that none finds what another one left; a call
whose inputs cannot be copied is alone in its replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.errors import GraphUnavailableError
from pytest_gpuperf.measure.notes import told_us
from pytest_gpuperf.measure.rotation import NotRotatableError, Rotation
from pytest_gpuperf.measure.timers.capture import captured
from pytest_gpuperf.measure.timers.eager import eager_host_us
from pytest_gpuperf.measure.timers.events import EventsTimer
from pytest_gpuperf.measure.timers.pilot import Pilot, pilot_of
from pytest_gpuperf.measure.timers.rig import Rig

REPLAY_US = 1_000.0
"""A replay takes about this long, so that two runs whose pilots choose differently still agree within 0.2 %."""
LEAST_REPLAY_US = 200.0
MOST_CALLS = 256
CAPTURE_US = 2_000_000.0
"""Of the host's time."""
MEMORY_SHARE = 1 / 16
"""Of the device's memory, for the inputs and outputs of all calls together."""
FREE_SHARE = 0.5
OMITTED_RATIO = 4.0
OMITTED_MARGIN_US = 2.0
"""A graph that is this much quicker than the calls it was made of leaves work out, on a stream or thread it missed."""


class GraphTimer:
    """Per trial: flush, clock meter, event, replay, event. Each call's share of it is the trial's time."""

    kind = "graph"

    def __init__(self, rig: Rig, cache: str, pilot: Pilot | None = None) -> None:
        self.cache = cache
        self._rig = rig
        self._pilot = pilot
        self._replays = EventsTimer(rig, cache)
        self._replay = Target(_no_graph)
        self._calls = 1
        self.alone_because = ""
        """Why a cold replay is of one call, where its inputs cannot be copied; what events add is all on that call."""
        self._kept: Any = None
        self.call_us = 0.0
        """What a call took in the first replays."""

    @property
    def floor_us(self) -> float:
        """A call's share of what events read around nothing."""
        return self._replays.floor_us / self._calls

    @property
    def calls(self) -> int:
        """How many calls a replay makes."""
        return self._calls

    def describe(self) -> str:
        """Name everything that shapes the figure.

        The number of calls is no part of it: it may differ by run, and is large enough not to matter where it can be.
        """
        inputs = ", one call a replay" if self.alone_because else ", inputs of its own for each call"
        cold = inputs if self.cache == "cold" else ""
        return self.kind + self._replays.describe().removeprefix(self._replays.kind) + cold

    def prepare(self, target: Target) -> None:
        """Look at the call, choose how many of it to unroll, and capture them.

        Raises `GraphUnavailableError` where that cannot be done.
        """
        if target.setup is not None:
            raise GraphUnavailableError("its `setup` makes fresh arguments for every call, which a graph cannot")
        pilot = self._pilot or pilot_of(self._rig, self.cache, target)
        if not pilot.queued:
            raise GraphUnavailableError("it waits for the device, or launches more than its queue holds")
        calls = self._unrolled(target, pilot)
        while not self._captured(calls):
            if len(calls) == 1:
                raise GraphUnavailableError("a replay of it is more than the device's queue holds")
            calls = calls[: len(calls) // 2]
        batch = self._replays.batch(self._replay, 2)
        self.call_us = median(batch.times_us) / self._calls
        if OMITTED_RATIO * self.call_us + OMITTED_MARGIN_US < pilot.net_us:
            raise GraphUnavailableError(
                f"the graph of it takes {told_us(self.call_us)} a call and the call itself {told_us(pilot.net_us)}, "
                "so it leaves work out (on another stream or thread)"
            )

    def batch(self, target: Target, trials: int) -> Batch:
        """Time up to `trials` replays; the host's time is that of ordinary calls before them."""
        host_us = eager_host_us(self._rig, target)
        batch = self._replays.batch(self._replay, trials)
        return replace(
            batch,
            times_us=tuple(time_us / self._calls for time_us in batch.times_us),
            host_us=(host_us,) * len(batch.times_us),
            notes=(*batch.notes, self._size()),
        )

    def _size(self) -> str:
        alone = f": {self.alone_because}" if self.alone_because else ""
        return f"graph of {self._calls} call{'' if self._calls == 1 else 's'}{alone}"

    def _captured(self, calls: list[Callable[[], Any]]) -> bool:
        """Capture the calls and prepare to time their replays; return whether these can be queued."""
        graph = captured(self._rig, calls, keep_outputs=self.cache == "cold")
        self._calls, self._kept = len(calls), calls
        self._replay = Target(graph.replay)
        self._replays = EventsTimer(self._rig, self.cache)
        self._replays.prepare(self._replay)
        return self._replays.queued

    def _unrolled(self, target: Target, pilot: Pilot) -> list[Callable[[], Any]]:
        """Return the calls to capture."""
        if self.cache == "warm":
            return [target.bind()] * unrolled_calls(pilot.net_us, pilot.host_us)
        try:
            return self._rotated(target, pilot)
        except NotRotatableError as why:
            # Flushed before each replay: there is no other call to warm anything up.
            self.alone_because = f"a cold cache needs inputs of its own for every call, and {why}"
            return [target.bind()]

    def _rotated(self, target: Target, pilot: Pilot) -> list[Callable[[], Any]]:
        rig = self._rig
        rotation = Rotation(target, rig.torch)
        if unrolled_calls(pilot.net_us, pilot.host_us) == 1:
            return [target.bind()]
        each_bytes = rotation.size_bytes + rig.peak_bytes(target.bind())
        most_bytes = int(min(MEMORY_SHARE * rig.memory_bytes, FREE_SHARE * rig.free_bytes()))
        calls = unrolled_calls(pilot.net_us, pilot.host_us, each_bytes, most_bytes)
        if calls * pilot.net_us < min(LEAST_REPLAY_US, MOST_CALLS * pilot.net_us):
            raise NotRotatableError(f"enough copies of {each_bytes} bytes are more than the memory to spare")
        try:
            return [rotation.call() for _ in range(calls)]
        except rig.torch.cuda.OutOfMemoryError:
            raise NotRotatableError(f"{calls} copies of {each_bytes} bytes do not fit into the memory") from None


def unrolled_calls(time_us: float, host_us: float, each_bytes: int = 0, most_bytes: int = -1) -> int:
    """Return how many calls make a replay long enough: a power of two, less where time or memory forbids it."""
    calls = 1
    while calls < MOST_CALLS and calls * time_us < REPLAY_US:
        calls *= 2
    while calls > 1 and (calls * host_us > CAPTURE_US or calls * each_bytes > most_bytes >= 0):
        calls //= 2
    return calls


def _no_graph() -> None:
    """Stand in until there is a graph."""
