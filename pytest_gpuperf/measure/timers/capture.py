"""Capturing calls in a CUDA graph, and mending what a capture that fails leaves behind.

torch ends a capture in several steps, of which the first raises where the capture was invalidated; the allocator then
goes on to serve a pool that nobody owns, and the generator refuses to draw numbers outside of a capture.

A process's first graph is quicker than all later ones. On an H200 (driver 580, CUDA 13) its kernels followed each other
0.34 us sooner, until something was launched on the stream of its capture once more; from then on it was as slow as all
others, for good. Two graphs of next to nothing are made first, so that no benchmark's is the first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from pytest_gpuperf.measure.errors import GraphUnavailableError, first_line
from pytest_gpuperf.measure.timers.rig import Rig

WARM_UPS = 3
FIRST_GRAPHS = 2
FIRST_CALLS = 8
_FAILED: list[Any] = []
"""Graphs whose capture failed: torch keeps pointers to them, so they stay."""


def captured(rig: Rig, calls: Sequence[Callable[[], Any]], *, keep_outputs: bool) -> Any:
    """Return a graph of the calls, in this order on one stream; `keep_outputs` gives each output memory of its own.

    They are warmed up on the stream first, since libraries allocate for each stream they meet.
    Raises `GraphUnavailableError` where the calls cannot be captured; the device is then as it was before.
    """
    if not rig.has_graphs:
        rig.has_graphs = True
        _make_first_graphs(rig)
    return _captured_on_its_stream(rig, calls, keep_outputs)


def _make_first_graphs(rig: Rig) -> None:
    for _ in range(FIRST_GRAPHS):
        graph = _captured_on_its_stream(rig, [rig.launch_next_to_nothing] * FIRST_CALLS, keep_outputs=False)
        with rig.current():
            graph.replay()
            rig.synchronize()


def _captured_on_its_stream(rig: Rig, calls: Sequence[Callable[[], Any]], keep_outputs: bool) -> Any:
    with rig.current(), rig.torch.cuda.stream(rig.capture_stream):
        rig.synchronize()
        for call in calls[:WARM_UPS]:
            call()
        rig.synchronize()
        return _captured_here(rig, calls, keep_outputs)


def _captured_here(rig: Rig, calls: Sequence[Callable[[], Any]], keep_outputs: bool) -> Any:
    torch = rig.torch
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    generator = torch.cuda.default_generators[rig.index]
    state, stream = generator.clone_state(), torch.cuda.current_stream()
    outputs: list[Any] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a graph is empty: whether there was work is asked elsewhere
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            for call in calls:
                output = call()
                if keep_outputs:
                    outputs.append(output)
            torch.cuda.set_stream(stream)  # where the capture has to end
            graph.capture_end()
    except BaseException as error:
        torch.cuda.set_stream(stream)
        _mend(rig, graph, pool, generator, state)
        if not isinstance(error, Exception):
            raise
        raise GraphUnavailableError(f"it cannot be captured in a CUDA graph ({first_line(error)})") from error
    return graph


def _mend(rig: Rig, graph: Any, pool: Any, generator: Any, state: Any) -> None:
    """End a broken capture, and undo what it did to allocator and generator; raises if the device is lost."""
    _FAILED.append(graph)
    # A capture that ends well, the error being the callable's own, gives its pool back by itself; giving it back once
    # more breaks the allocator.
    if _succeeds(graph.capture_end):
        _succeeds(graph.reset)
    else:
        _succeeds(graph.reset)
        _succeeds(lambda: rig.torch._C._cuda_endAllocateToPool(rig.index, pool))
        _succeeds(lambda: rig.torch._C._cuda_releasePool(rig.index, pool))
    _succeeds(lambda: generator.graphsafe_set_state(state))
    rig.synchronize()


def _succeeds(step: Callable[[], Any]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a graph is empty, as above
        try:
            step()
        except RuntimeError:
            return False
    return True
