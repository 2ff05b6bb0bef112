"""What is known of the calls that the checks look at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.dice import Dice
from pytest_gpuperf.checks.held_state import HeldState
from pytest_gpuperf.checks.launches import Observed
from pytest_gpuperf.checks.provenance import Provenance
from pytest_gpuperf.measure.samples import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """What is known from the verified call and from before it."""

    output: Any = None
    samples: tuple[Any, ...] = ()
    written: tuple[Any, ...] = ()
    """Samples of the arguments that it wrote to."""
    memory: tuple[tuple[str, int], ...] = ()
    """Where the output's tensors are."""
    expected_memory: tuple[tuple[str, int], ...] = ()
    """Where the reference's output for the same inputs was."""
    expected_samples: tuple[Any, ...] = ()
    reference_s: float | None = None
    sums: Mapping[str, int] = field(default_factory=dict)
    """Checksums of the tensor arguments before any call."""
    dice: Dice = field(default_factory=Dice)
    held: HeldState = field(default_factory=HeldState)
    """What the callable held then."""
    patched: tuple[str, ...] = ()
    """Functions that were not the originals then."""
    state_changes: tuple[str, ...] = ()
    """Settings of the process that were others after the call, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """Two calls on the same fresh values, before the timed region."""

    observed: Observed
    again: Observed
    sums: Mapping[str, int]
    """Checksums of the benchmark's own arguments at the time."""
    dice: Dice
    """As they were before the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What is known of the timed region."""

    record: RunRecord
    timer: str
    compilations: int = 0
    """How often something was compiled or tuned in it or in its warm-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshCall:
    """A call on fresh values in fresh buffers."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    before: dict[str, Any]
    """Copies of the tensor arguments as they were given, by name."""
    after: dict[str, Any]
    """The same arguments after the call."""
    changed: tuple[str, ...]
    """The names of those that the call wrote to."""
    observed: Observed


@dataclass(frozen=True, slots=True)
class OtherStart:
    """One argument before and after a call that differs from the fresh call in it alone, and the rest of its output."""

    before: Any
    after: Any
    samples: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonedCall:
    """A call that found only poison in the memory it was given."""

    unwritten: tuple[tuple[int, int], ...]
    """(elements that show poison and do not without it, all elements) of each floating output, in their order."""
    is_late: bool
    """Whether the output went on changing after the call had returned."""
    left_running: tuple[str, ...]
    """Names of the threads that it started and left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """A call on the benchmark's own inputs whose operations were followed."""

    provenance: Provenance
    outputs: tuple[Any, ...]
    """The tensors of its output, empty ones left out."""

    def works_with(self, memory: Collection[tuple[str, int]]) -> bool:
        """Whether an output was computed from this memory, and from the inputs."""
        follows = (output for output in self.outputs if tensors.storage_of(output) in self.provenance.given)
        return any(self.provenance.is_computed_from(output, memory) for output in follows)

    def remembers(self, calls: Collection[TracedCall]) -> bool:
        """Whether an output comes from memory that hands something on from one of these calls to another."""
        provenances = [call.provenance for call in calls]
        return any(self.provenance.comes_from(output, provenances) for output in self.outputs)
