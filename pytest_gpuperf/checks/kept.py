"""Results from before the call: what is written over them is what the next call returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_gpuperf.checks import tensors
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.provenance import Provenance

FEWEST_ELEMENTS = 8
"""Smaller outputs say little: a flag, or a loss that is read one step late."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Memory from before the call that an output seems to come from."""

    output: Any
    tensors: tuple[Any, ...]
    is_alike: bool
    """Whether the output is one of them, or a copy; if not, it is put together from them."""


def returns_what_was_kept(evidence: Evidence) -> bool:
    """Whether all that a call returns was there before it.

    Only a test tells it from a result that the call has written: other values are put into the memory it seems to come
    from, and a call either writes it anew or returns those. The old values are put back.
    """
    sources = list(_sources(evidence))
    if not sources or not all(source.tensors for source in sources):
        return False
    usual = [source.output.detach().clone() for source in sources]
    memory = list({id(tensor): tensor for source in sources for tensor in source.tensors}.values())
    evidence.reserve(1)
    evidence.reserve_bytes(4 * tensors.size_bytes(memory))
    with _overwritten(memory, evidence.torch) as values:
        output = evidence.bound(*evidence.subject.inputs())()
        now = tuple(tensor for tensor in evidence.outputs(output) if tensor.numel())
        return len(now) == len(sources) and all(map(_Follows(values, evidence.torch), sources, usual, now))


@dataclass(frozen=True, slots=True)
class _Follows:
    values: dict[int, Any]
    """What was written, by the tensor it was written to."""
    torch: Any

    def __call__(self, source: _Source, usual: Any, now: Any) -> bool:
        if source.is_alike:
            return tensors.same_values(now, self.values[id(source.tensors[0])], self.torch)
        return not tensors.same_values(now, usual, self.torch)


def _sources(evidence: Evidence) -> Iterator[_Source]:
    """Yield for each output what it may have come from; no tensors where it was computed, or is to be left alone."""
    if (traced := evidence.traced) is None:
        return
    can_write_integers = not evidence.on_gpu  # which index something perhaps, and wrong ones break the GPU's context
    for output in traced.outputs:
        found: tuple[Any, ...] = ()
        is_alike = True
        if output.numel() >= FEWEST_ELEMENTS and (tensors.is_floating(output) or can_write_integers):
            found = _kept_for(output, traced.provenance, evidence)
            is_alike = bool(found)
            if not found and _is_the_same_for_others(evidence):
                found = traced.provenance.moved_from(output)
        yield _Source(output, found, is_alike)


def _kept_for(output: Any, provenance: Provenance, evidence: Evidence) -> tuple[Any, ...]:
    """Return the tensor from before the call that an output is, or is a copy of."""
    if provenance.is_left_alone(output):
        return (output,)
    place = tensors.storage_of(output)
    if place not in provenance.made or place in provenance.given or place in provenance.written:
        return ()
    if not evidence.arguments:  # copying what a function closes over is a fair benchmark
        return ()
    left_alone = (tensor for place, tensor in provenance.kept.items() if place not in provenance.written)
    return tuple(tensor for tensor in left_alone if tensors.same_values(tensor, output, evidence.torch))[:1]


def _is_the_same_for_others(evidence: Evidence) -> bool:
    floating = any(tensors.is_floating(tensor) for tensor in evidence.arguments.values())
    usual, now = evidence.repeated.samples, evidence.fresh.observed.samples
    return floating and bool(usual) and tensors.same_samples(usual, now, evidence.torch)


@contextmanager
def _overwritten(memory: Sequence[Any], torch: Any) -> Iterator[dict[int, Any]]:
    """Put other values into tensors during the body; yield copies of these by the tensor's id."""
    saved = [tensors.copy_of(tensor, torch) for tensor in memory]
    try:
        for tensor, old in zip(memory, saved, strict=True):
            tensors.write_past_autograd(tensor, tensors.turned(old, torch), torch)
        yield {id(tensor): tensor.detach().clone() for tensor in memory}
    finally:
        for tensor, old in zip(memory, saved, strict=True):
            tensors.write_past_autograd(tensor, old, torch)
