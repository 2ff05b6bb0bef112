"""The timer that is chosen by a pilot: events, or a graph for a call that is too short for them or launch-bound."""

from __future__ import annotations

from dataclasses import replace

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.errors import GraphUnavailableError
from pytest_gpuperf.measure.notes import AUTO_NOTE, told_us
from pytest_gpuperf.measure.timers.events import EventsTimer
from pytest_gpuperf.measure.timers.graph import GraphTimer
from pytest_gpuperf.measure.timers.pilot import Pilot, take_pilot
from pytest_gpuperf.measure.timers.rig import Rig

SHORT_US = 40.0
"""Below this, what events add to a call, and how much that differs from run to run, matters."""
LAUNCH_BOUND_US = 1_000.0
"""Up to this, the gaps between the kernels of a launch-bound call matter."""
LIKE_BEFORE = "like the runs it is compared with"


class AutoTimer:
    """Is one of the others from `prepare` on, and says which and why.

    `preferred` is the kind that others were timed with which this is to be compared with: it is taken if it can be,
    whatever the pilot says, so that a call near the limit does not end up on both sides of it.
    """

    def __init__(self, rig: Rig, cache: str, preferred: str | None = None) -> None:
        self.cache = cache
        self._rig = rig
        self._preferred = preferred
        self.chosen: EventsTimer | GraphTimer = EventsTimer(rig, cache)
        self._note = ""

    @property
    def kind(self) -> str:
        """The chosen timer's."""
        return self.chosen.kind

    @property
    def floor_us(self) -> float:
        """The chosen timer's."""
        return self.chosen.floor_us

    def describe(self) -> str:
        """Say what the chosen timer says: how it came to be chosen does not decide what it may be compared with."""
        return self.chosen.describe()

    def prepare(self, target: Target) -> None:
        """Prepare events, look at the call, and take a graph where that is the better choice and possible."""
        events = EventsTimer(self._rig, self.cache)
        events.prepare(target)
        self.chosen = events
        if self._preferred == "events":
            self._note = f"{AUTO_NOTE}events, {LIKE_BEFORE} (floor {told_us(events.floor_us)})"
            return
        pilot = take_pilot(events, target)
        problem = self._take_graph(target, pilot) if self._wants_graph(target, pilot) else ""
        read_us = self.chosen.call_us if isinstance(self.chosen, GraphTimer) else pilot.read_us
        like = f", {LIKE_BEFORE}" if self._preferred == self.kind else ""
        self._note = (
            f"{AUTO_NOTE}{self.kind}{like} ({told_us(read_us)} a call; floor {told_us(self.floor_us)}){problem}"
        )

    def batch(self, target: Target, trials: int) -> Batch:
        """Time by the chosen timer."""
        batch = self.chosen.batch(target, trials)
        return replace(batch, notes=(self._note, *batch.notes))

    def _wants_graph(self, target: Target, pilot: Pilot) -> bool:
        if pilot.nothing or (target.setup is not None and self._preferred is None):
            return False
        return self._preferred == "graph" or pilot.net_us < (LAUNCH_BOUND_US if pilot.launch_bound else SHORT_US)

    def _take_graph(self, target: Target, pilot: Pilot) -> str:
        """Choose a graph; return why it cannot be, empty where it is."""
        graph = GraphTimer(self._rig, self.cache, pilot)
        try:
            graph.prepare(target)
        except GraphUnavailableError as error:
            return f"; not graph: {error.why}"
        if graph.alone_because and pilot.net_us < SHORT_US and self._preferred is None:
            # What events add would be all on this one call in a graph, too.
            return f"; not graph: {graph.alone_because}"
        self.chosen = graph
        return ""
