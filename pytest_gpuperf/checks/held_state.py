"""Tensors that a callable holds, and which of them have become others since it was first looked at."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from pytest_gpuperf.checks.sight import in_sight
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.checks.tensors import storage_of
from pytest_gpuperf.measure.tensors import is_plain


@dataclass(frozen=True, slots=True)
class HeldState:
    """Each tensor in sight by its id, with torch's count of the writes to it."""

    tensors: dict[int, tuple[weakref.ref[Any], int]] = field(default_factory=dict)

    def is_unchanged(self, tensor: Any) -> bool:
        """Whether it was there before and has not been written to."""
        reference, version = self.tensors.get(id(tensor), (_nothing, 0))
        known = reference()
        return known is not None and known is tensor and bool(known._version == version)


def _nothing() -> None:
    """Refer to no tensor."""


def held_state(subject: Subject, torch: Any) -> HeldState:
    """Return what a callable holds now."""
    tensors = _tensors_of(subject, torch) if torch is not None else []
    return HeldState({id(tensor): (weakref.ref(tensor), tensor._version) for tensor in tensors})


def changed_since(before: HeldState, subject: Subject, torch: Any) -> set[tuple[str, int]]:
    """Return the memory of tensors that have been replaced or written to since.

    A module's buffers count together: torch does not count what batch normalisation writes to its averages.
    """
    tensors = _tensors_of(subject, torch)
    changed = [tensor for tensor in tensors if not before.is_unchanged(tensor)]
    ids = set(map(id, changed))
    for module in in_sight(subject, torch):
        if isinstance(module, torch.nn.Module):
            buffers = [buffer for buffer in module.buffers(recurse=False) if is_plain(buffer, torch)]
            changed += buffers if any(id(buffer) in ids for buffer in buffers) else []
    return {storage_of(tensor) for tensor in changed}


def _tensors_of(subject: Subject, torch: Any) -> list[Any]:
    found = (value for value in in_sight(subject, torch) if isinstance(value, torch.Tensor))
    return [tensor for tensor in found if is_plain(tensor, torch) and not tensor.is_inference()]
