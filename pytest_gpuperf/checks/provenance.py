"""Where the tensors of one call come from: its arguments, itself, or memory from before it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pytest_gpuperf.checks.regions import Runs, meet, merged, runs_of, without
from pytest_gpuperf.checks.tensors import storage_of
from pytest_gpuperf.measure.tensors import is_plain

Storage = tuple[str, int]
MOVING = re.compile(r"aten\.(clone|copy_?|_to_copy|cat|stack)\b")
"""Operations that move values and compute none."""
OVERWRITING = re.compile(r"aten\.(copy_|fill_|zero_|set_)\b|.*\.(\w+_)?out$")
"""Operations that write without reading what was there."""


@dataclass(slots=True)
class Origin:
    """What memory from before the call a tensor's values come from."""

    computed: frozenset[Storage] = frozenset()
    """What went into arithmetic."""
    handed: dict[Storage, Runs] = field(default_factory=dict)
    """What is in the tensor as it was: the bytes of it that the call had not written."""

    @property
    def all(self) -> frozenset[Storage]:
        """Both."""
        return self.computed | self.handed.keys()


@dataclass(slots=True)
class Provenance:
    """What is known of the memory that the operations of one call read and write, noted one by one."""

    torch: Any
    arguments: frozenset[Storage]
    given: set[Storage] = field(default_factory=set)
    """Memory of arguments, and of what was computed from them."""
    made: dict[Storage, Any] = field(default_factory=dict)
    """What operations of the call returned, kept so that no other tensor gets its address."""
    written: dict[Storage, Runs] = field(default_factory=dict)
    """The bytes that were written to, as far as they can be listed."""
    kept: dict[Storage, Any] = field(default_factory=dict)
    """Operands from before the call."""
    origins: dict[Storage, Origin] = field(default_factory=dict)
    """Of memory that is made or written."""
    moved: dict[Storage, tuple[Any, ...]] = field(default_factory=dict)
    """Of memory that holds nothing but values of kept operands: these."""

    def __post_init__(self) -> None:
        self.given |= self.arguments

    def note(self, operation: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Follow one operation."""
        operands = self._tensors((args, kwargs))
        places = set(map(storage_of, operands))
        for tensor in operands:
            if (place := storage_of(tensor)) not in self.made and place not in self.arguments:
                self.kept.setdefault(place, tensor)
        written = list(self._used_by(operation, args, kwargs, to_write=True))
        made = [tensor for tensor in self._tensors(output) if storage_of(tensor) not in places]
        if not written and not made:  # a view
            return
        only_written = set(map(storage_of, written)) if OVERWRITING.match(str(operation)) else set()
        read = [tensor for tensor in operands if storage_of(tensor) not in only_written]
        read += self._used_by(operation, args, kwargs, to_write=False)
        follows_arguments = not self.given.isdisjoint(map(storage_of, read))
        is_moving = MOVING.match(str(operation)) is not None
        moved = self._moved_by(read) if is_moving else ()
        origin = _joined(map(self._origin_of, read))
        for tensor in written:
            self._note_written(tensor, origin)
        for tensor in made:
            place = storage_of(tensor)
            self.made[place] = tensor
            self.origins[place] = origin if is_moving else Origin(origin.all)
            if moved:
                self.moved[place] = moved
        if follows_arguments:
            self.given.update(map(storage_of, (*written, *made)))

    def comes_from(self, tensor: Any, calls: Collection[Provenance]) -> bool:
        """Whether a tensor's values come from what any of these calls leaves behind, this one being one of them.

        That is memory which a call made and another one finds, or which one finds and one writes to. What is handed
        on as it was has to be what is written; what is computed may have been written some calls before.
        """
        origin = self._origin_of(tensor)
        return any(
            (call is not self and not origin.all.isdisjoint(call.made))
            or not origin.computed.isdisjoint(call.written)
            or any(meet(runs, call.written.get(place, ())) for place, runs in origin.handed.items())
            for call in calls
        )

    def is_computed_from(self, tensor: Any, memory: Collection[Storage]) -> bool:
        """Whether any of this memory, from before the call, went into a tensor by arithmetic."""
        return not self._origin_of(tensor).computed.isdisjoint(memory)

    def moved_from(self, tensor: Any) -> tuple[Any, ...]:
        """Return the kept operands that a tensor was put together from, none if anything was computed."""
        return self.moved.get(storage_of(tensor), ())

    def is_left_alone(self, tensor: Any) -> bool:
        """Whether a tensor's memory was there before the call, which has written to none of it so far."""
        place = storage_of(tensor)
        if place in self.made or place in self.arguments:
            return False
        runs = runs_of(tensor)
        return place not in self.written or (runs is not None and not meet(runs, self.written[place]))

    def _note_written(self, tensor: Any, origin: Origin) -> None:
        place, runs = storage_of(tensor), runs_of(tensor) or ()
        self.moved.pop(place, None)
        self.written[place] = merged((*self.written.get(place, ()), *runs))
        before = self.origins.get(place, Origin()) if runs != _all_of(tensor) else Origin()
        self.origins[place] = Origin(before.computed | origin.all, before.handed)

    def _moved_by(self, read: Iterable[Any]) -> tuple[Any, ...]:
        """Return the kept operands whose values are all that was read; none if anything else was."""
        sources = [(tensor,) if self.is_left_alone(tensor) else self.moved_from(tensor) for tensor in read]
        return tuple(chain.from_iterable(sources)) if all(sources) else ()

    def _origin_of(self, tensor: Any) -> Origin:
        place = storage_of(tensor)
        origin = self.origins.get(place, Origin())
        if place not in self.kept:
            return origin
        stale = without(runs_of(tensor) or _all_of(tensor), self.written.get(place, ()))
        return Origin(origin.computed, {place: stale} if stale else {})

    def _used_by(self, operation: Any, args: Any, kwargs: Any, *, to_write: bool) -> Iterator[Any]:
        for index, argument in enumerate(operation._schema.arguments):
            if to_write == (argument.alias_info is not None and argument.alias_info.is_write):
                value = args[index] if index < len(args) else kwargs.get(argument.name)
                yield from self._tensors(value)

    def _tensors(self, value: Any) -> list[Any]:
        leaves = self.torch.utils._pytree.tree_leaves(value)
        tensors = (leaf for leaf in leaves if isinstance(leaf, self.torch.Tensor))
        return [t for t in tensors if is_plain(t, self.torch) and t.numel() and _has_memory(t)]


def _joined(origins: Iterable[Origin]) -> Origin:
    computed: frozenset[Storage] = frozenset()
    handed: dict[Storage, Runs] = {}
    for origin in origins:
        computed |= origin.computed
        for place, runs in origin.handed.items():
            handed[place] = merged((*handed.get(place, ()), *runs))
    return Origin(computed, handed)


def _all_of(tensor: Any) -> Runs:
    return ((0, int(tensor.untyped_storage().nbytes())),)


def _has_memory(tensor: Any) -> bool:
    """Whether a tensor has an address: those that transformed functions compute with may have none."""
    try:
        return bool(storage_of(tensor))
    except RuntimeError:
        return False
