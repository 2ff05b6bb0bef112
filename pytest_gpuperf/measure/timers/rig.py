"""What all timers of one CUDA device share: hold, flush, clock meter, events. Made once, used by one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pytest_gpuperf.measure.clocks import ClockMeter, NvmlMeter, SpinMeter
from pytest_gpuperf.measure.device_code import DeviceCode, DeviceCodeError
from pytest_gpuperf.measure.errors import StreamChangedError
from pytest_gpuperf.measure.nvml import Nvml
from pytest_gpuperf.measure.timers.flush import Flush
from pytest_gpuperf.measure.timers.hold import Hold, SleepHold, SpinHold

MOST_TRIALS = 50
"""Of a batch."""


class Rig:
    """The device's timing tools. Buffers live until `close`; every tool has run once before it is first used."""

    def __init__(self, torch: Any, index: int, nvml: Nvml) -> None:
        self.torch = torch
        self.index = index
        self.notes: tuple[str, ...] = ()
        self.has_graphs = False
        """Whether a graph has been captured with these tools."""
        with torch.cuda.device(index):
            torch.cuda.synchronize()
            self._code = self._load_code()
            self.hold: Hold = SleepHold(torch) if self._code is None else SpinHold(self._code)
            self.meter: ClockMeter = (
                NvmlMeter(nvml) if self._code is None else SpinMeter(self._code, torch, MOST_TRIALS)
            )
            self.flush = Flush(torch, torch.cuda.get_device_properties(index).L2_cache_size)
            self.origin = torch.cuda.Event(enable_timing=True)
            self.events = [self._event_pair() for _ in range(MOST_TRIALS)]
            self._run_everything_once()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the device current; the body must leave device and stream as they are, or they are restored.

        Raises `StreamChangedError` where it did not.
        """
        cuda = self.torch.cuda
        with cuda.device(self.index):
            stream = cuda.current_stream()
            try:
                yield
            finally:
                device_after, stream_after = cuda.current_device(), cuda.current_stream(self.index)
                cuda.set_device(self.index)
                cuda.set_stream(stream)
            if device_after != self.index:
                raise StreamChangedError("device", f"cuda:{self.index}", f"cuda:{device_after}")
            if stream_after != stream:
                raise StreamChangedError("stream", stream, stream_after)

    def stream_handle(self) -> int:
        """The current stream of the device, as the driver knows it."""
        return int(self.torch.cuda.current_stream(self.index).cuda_stream)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.torch.cuda.synchronize(self.index)

    @cached_property
    def capture_stream(self) -> Any:
        """The stream that graphs are captured on: always the same, since libraries keep memory for each they meet."""
        return self.torch.cuda.Stream(self.index)

    @cached_property
    def _one_number(self) -> Any:
        return self.torch.zeros(1, device=f"cuda:{self.index}")

    def launch_next_to_nothing(self) -> None:
        """Launch a kernel on one number."""
        self._one_number.add_(1)

    def peak_bytes(self, call: Callable[[], Any]) -> int:
        """Call once; return the most memory that it had requested at a time, beyond what was held before.

        What is requested is exact, whereas what is allocated depends on how the allocator rounds and splits blocks.
        """
        with self.current():
            self.synchronize()
            self.torch.cuda.reset_peak_memory_stats(self.index)
            before_bytes = self._requested_bytes("current")
            call()
            self.synchronize()
            return self._requested_bytes("peak") - before_bytes

    @property
    def memory_bytes(self) -> int:
        """All of the device's memory."""
        return int(self.torch.cuda.mem_get_info(self.index)[1])

    def free_bytes(self) -> int:
        """What can still be allocated: what the device has left, and what the allocator keeps for later."""
        cuda = self.torch.cuda
        kept_bytes = cuda.memory_reserved(self.index) - cuda.memory_allocated(self.index)
        return int(cuda.mem_get_info(self.index)[0] + kept_bytes)

    def close(self) -> None:
        """Free buffers and kernels."""
        with self.torch.cuda.device(self.index):
            self.synchronize()
            self.hold.close()
            self.meter.close()
            del self.flush, self.events
            if self._code is not None:
                self._code.unload()

    def _load_code(self) -> DeviceCode | None:
        try:
            return DeviceCode()
        except DeviceCodeError as error:
            self.notes = (f"timed with a sleep of fixed length and NVML's coarse clock: {error}",)
            return None

    def _requested_bytes(self, which: str) -> int:
        statistics = self.torch.cuda.memory_stats(self.index)
        return int(statistics.get(f"requested_bytes.all.{which}", statistics.get(f"allocated_bytes.all.{which}", 0)))

    def _event_pair(self) -> tuple[Any, Any]:
        event = self.torch.cuda.Event
        return event(enable_timing=True), event(enable_timing=True)

    def _run_everything_once(self) -> None:
        """Load all modules now: loading one waits for the device, which must not happen while it is held."""
        stream = self.stream_handle()
        self.hold.begin(stream, 0.0)
        self.hold.release()
        self.flush.start()
        for slot, (before, after) in enumerate(self.events):
            self.meter.start(slot, stream)
            before.record()
            after.record()
        self.origin.record()
        self.meter.queue_reading(stream)
        self.synchronize()
