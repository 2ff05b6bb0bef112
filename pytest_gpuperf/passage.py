"""What of a stated call is verified and what of it is timed, by the passes that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.calls import BenchmarkCall
    from pytest_gpuperf.measure.passes import Passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One call with its passes. The gradients are verified together with the output, whatever is timed."""

    whole: BenchmarkCall
    """Called once and verified: returns the function's own output, with the inputs' gradients if there is a backward
    pass."""
    timed: BenchmarkCall

    def own_output(self, output: Any) -> Any:
        """Return what the function itself returned, out of what `whole` returned."""
        return output if self.whole.mode == "forward" else output[0]

    def timed_output(self, output: Any) -> Any:
        """Return what `timed` would have returned, out of what `whole` returned."""
        return output[1] if self.whole.mode == "backward" else output

    def compared(self, output: Any, expected: Any) -> Iterator[tuple[str, Any, Any]]:
        """Yield what has to agree of what `whole` and its reference returned, each under the name it goes by."""
        yield "output", self.own_output(output), self.own_output(expected)
        if self.whole.mode != "forward":
            yield "gradients", output[1], expected[1]


def passage(call: BenchmarkCall, passes: Passes | None) -> Passage:
    """Split a call up; `passes` is needed, and imports torch, where there is a backward pass."""
    if call.mode == "forward" or passes is None:
        return Passage(whole=call, timed=call)
    reference = None if call.reference is None else passes.both(call.reference)
    whole = replace(call, fn=passes.both(call.fn), reference=reference)
    return Passage(whole=whole, timed=whole if call.mode == "both" else _backward_of(call, passes))


def _backward_of(call: BenchmarkCall, passes: Passes) -> BenchmarkCall:
    from pytest_gpuperf.measure.passes import backward

    inputs: Callable[[], Any] = (lambda: (call.args, call.kwargs)) if call.setup is None else call.setup
    graphs = passes.fresh_graphs(call.fn, inputs)
    return replace(call, fn=backward, args=(), kwargs={}, setup=graphs, reference=None)
