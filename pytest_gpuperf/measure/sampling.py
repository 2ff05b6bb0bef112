"""The timed region: batches until there are enough trials, with the device read now and then between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.batch import Batch, Target
from pytest_gpuperf.measure.device_state import DeviceReading
from pytest_gpuperf.measure.garbage import collect_young_garbage
from pytest_gpuperf.measure.samples import Trials
from pytest_gpuperf.measure.stopping import Stopping
from pytest_gpuperf.settings import BenchmarkSettings

if TYPE_CHECKING:
    from pytest_gpuperf.measure.backends.base import Backend, Timer

READ_EVERY_US = 250_000.0
"""A reading takes milliseconds, so it is taken at the ends and this often between."""
MOST_RETRIES = 3
MOST_BATCHES = 20
"""Of a record, which keeps two numbers for each."""
UNSTABLE_NOTE = "unstable: the device was throttled during the trials"


@dataclass(slots=True)
class Sampling:
    """One measurement's batches while they are taken."""

    timer: Timer
    target: Target
    backend: Backend
    batches: list[Batch] = field(default_factory=list)
    readings: list[DeviceReading] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _unjudged: list[Batch] = field(default_factory=list)
    """Batches since the last reading: kept or thrown away together when the next one is seen."""
    _retries: int = 0
    _last_read_us: float = 0.0

    def run(self, settings: BenchmarkSettings) -> None:
        """Take batches until `settings` are met; never ends without a trial."""
        stopping = Stopping(settings, self.backend.least_timed_us)
        self._read()
        start_us = self._last_read_us
        while True:
            elapsed_us = self.backend.now_us() - start_us
            wanted = stopping.wanted(self._times_us(), self._cycles(), elapsed_us)
            if wanted:
                self._unjudged.append(self.timer.batch(self.target, wanted))
                collect_young_garbage()
            if not wanted and not self._unjudged:
                return
            if not wanted or self.backend.now_us() - self._last_read_us >= READ_EVERY_US:
                self._judge()

    def trials(self) -> Trials:
        """Return all trials as one record; neighbouring batches are counted as one where there are many."""
        return Trials(
            times_us=tuple(time for batch in self.batches for time in batch.times_us),
            batch_indices=tuple(self._group(index) for index, batch in enumerate(self.batches) for _ in batch.times_us),
            clocks_ghz=tuple(clock for batch in self.batches for clock in batch.clocks_ghz),
            host_us=tuple(time for batch in self.batches for time in batch.host_us),
        )

    def _group(self, index: int) -> int:
        return index * min(len(self.batches), MOST_BATCHES) // len(self.batches)

    @property
    def unqueued(self) -> bool:
        """Whether any batch was timed with the host's time in it."""
        return any(batch.unqueued for batch in self.batches)

    def all_notes(self) -> tuple[str, ...]:
        """Return what the batches, the readings and the sampling itself had to say, each once."""
        seen = [note for batch in self.batches for note in batch.notes]
        seen += [note for reading in self.readings for note in reading.notes]
        return tuple(dict.fromkeys(seen + self.notes))

    def _times_us(self) -> list[float]:
        return [time for batch in (*self.batches, *self._unjudged) for time in batch.times_us]

    def _cycles(self) -> list[float]:
        """The trials in thousands of clock cycles; shorter than the times, or empty, where a clock is missing."""
        batches = (*self.batches, *self._unjudged)
        pairs = (zip(b.times_us, b.clocks_ghz, strict=False) for b in batches)
        return [time * clock for batch in pairs for time, clock in batch]

    def _read(self) -> DeviceReading:
        reading = self.backend.read_state()
        self.readings.append(reading)
        self._last_read_us = self.backend.now_us()
        return reading

    def _judge(self) -> None:
        """Keep the batches since the last reading, unless the device was throttled and they can be retried."""
        if not self._read().throttled:
            self.batches += self._unjudged
        elif self._retries < MOST_RETRIES:
            self._retries += 1
        else:
            self.batches += self._unjudged
            self.notes.append(UNSTABLE_NOTE)
        self._unjudged.clear()
