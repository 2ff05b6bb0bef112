"""Watching one call: the operations that it dispatches on the CPU, or what it launches on the GPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from pytest_gpuperf.checks.launches import Launch, Observed
from pytest_gpuperf.measure.device_profile import profiled

CPU_CALL_S = 0.005
"""What watching adds to a call, generously."""
CUDA_CALL_S = 0.02
WAKING_CYCLES = 50_000_000
AfterEach = Callable[[Any, Any, Any, Any], None]
NO_WORK = re.compile(r"aten\.(new_)?empty|aten\._local_scalar_dense|prim\.")


class Watcher(Protocol):
    """Watches calls on one kind of device."""

    sees_kernels: bool
    """Whether launches are the device's own, with times, or torch's operations."""
    call_s: float
    """What watching adds to the time of a call."""

    def watch(self, call: Callable[[], Any]) -> Observed:
        """Make the call, wait for it, and return what it returned and launched."""
        ...

    def synchronize(self) -> None:
        """Wait for the device."""
        ...

    def warm_up(self) -> None:
        """Do what is done once in a process."""
        ...


def watcher_for(device: str, torch: Any) -> Watcher:
    """Return what watches calls on `device`."""
    if device.startswith("cuda"):
        return CudaWatcher(torch, torch.device(device).index or 0)
    return CpuWatcher()


class CpuWatcher:
    """Sees the operations that reach torch's dispatcher, those that only make a view or empty memory left out.

    Compiled functions run uncompiled meanwhile. The profiler is no choice here: its first session in a process takes
    seconds.
    """

    sees_kernels = False
    call_s = CPU_CALL_S

    def watch(self, call: Callable[[], Any]) -> Observed:
        """Make the call under a dispatch mode."""
        launches: list[Launch] = []
        with _recording(launches):
            output = call()
        return Observed(output=output, launches=tuple(launches))

    def synchronize(self) -> None:
        """Do nothing: a call has finished when it returns."""

    def warm_up(self) -> None:
        """Do nothing: nothing is done once."""


def _recording(launches: list[Launch]) -> AbstractContextManager[Any]:
    """Return a mode that notes each operation that computes something."""

    def note(func: Any, _args: Any, _kwargs: Any, output: Any) -> None:
        if not _is_free(func):
            elements = output.numel() if hasattr(output, "numel") else 0
            launches.append(Launch(name=str(func), elements=elements))

    return dispatch_mode(note)


@contextmanager
def dispatch_mode(after_each: AfterEach) -> Iterator[None]:
    """Call `after_each(operation, args, kwargs, output)` for what reaches torch's dispatcher during the body.

    Compiled functions are made to run uncompiled. Left to itself, the compiler takes one that it meets under a mode for
    one that cannot be compiled, never runs it compiled again, and refuses where `fullgraph=True` is asked for.
    """
    with _uncompiled(), _mode(after_each):
        yield


def _uncompiled() -> AbstractContextManager[Any]:
    if "torch._dynamo" not in sys.modules:  # it takes seconds to import, and nothing is compiled without it
        return nullcontext()
    import torch

    stance: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def _mode(after_each: AfterEach) -> AbstractContextManager[Any]:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # To protect this method from the compiler, torch would import the compiler, for seconds.
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            output = func(*args, **named)
            after_each(func, args, named, output)
            return output

    return Mode()


def _is_free(func: Any) -> bool:
    """Whether an operation computes nothing: it returns a view, or memory as it is."""
    returns = func._schema.returns
    alias = returns[0].alias_info if returns else None
    return (alias is not None and not alias.is_write) or NO_WORK.match(str(func)) is not None


class CudaWatcher:
    """Sees kernels, copies and memsets through the profiler, with times and streams."""

    sees_kernels = True
    call_s = CUDA_CALL_S

    is_warm = False

    def __init__(self, torch: Any, index: int) -> None:
        self._torch = torch
        self._index = index

    def warm_up(self) -> None:
        """Start the profiler for the first time, which takes seconds."""
        if CudaWatcher.is_warm:
            return
        CudaWatcher.is_warm = True
        probe = self._torch.zeros(1, device=f"cuda:{self._index}")
        self.watch(lambda: probe.add_(1))
        # The clocks may have gone down meanwhile, and kernels are timed next.
        self._torch.cuda._sleep(WAKING_CYCLES)
        self.synchronize()

    def watch(self, call: Callable[[], Any]) -> Observed:
        """Make the call under the profiler and wait for the whole device, every stream of it."""
        outputs: list[Any] = []
        self.synchronize()
        spans = profiled(self._torch, lambda: outputs.append(call()), self._index)
        launches = (
            Launch(name=span.name, start_us=span.start_us, duration_us=span.duration_us, stream=span.stream)
            for span in spans
        )
        return Observed(output=outputs[0], launches=tuple(sorted(launches, key=lambda launch: launch.start_us)))

    def synchronize(self) -> None:
        """Wait for the device."""
        self._torch.cuda.synchronize(self._index)
