"""Where the tensors of one call come from: its arguments, itself, or memory from before it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from pytest_gpuperf.checks.tensors import storage_of
from pytest_gpuperf.measure.tensors import is_plain

Storage = tuple[str, int]
MOVING = re.compile(r"aten\.(clone|copy_?|_to_copy|cat|stack)\b")
"""Operations that move values and compute none."""
OVERWRITING = re.compile(r"aten\.(copy_|fill_|zero_|set_)\b|.*\.(\w+_)?out$")
"""Operations that write without reading what was there."""


@dataclass(slots=True)
class Provenance:
    """What is known of the memory that the operations of one call read and write, noted one by one."""

    torch: Any
    arguments: frozenset[Storage]
    given: set[Storage] = field(default_factory=set)
    """Memory of arguments, and of what was computed from them."""
    made: dict[Storage, Any] = field(default_factory=dict)
    """What operations of the call returned, kept so that no other tensor gets its address."""
    written: set[Storage] = field(default_factory=set)
    kept: dict[Storage, Any] = field(default_factory=dict)
    """Operands from before the call."""
    sources: dict[Storage, frozenset[Storage]] = field(default_factory=dict)
    """Of memory that is made or written: the kept operands that it was computed from."""
    moved: set[Storage] = field(default_factory=set)
    """Memory that holds nothing but values of kept operands."""

    def __post_init__(self) -> None:
        self.given |= self.arguments

    def note(self, operation: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Follow one operation."""
        operands = {storage_of(tensor): tensor for tensor in self._tensors((args, kwargs))}
        for place, tensor in operands.items():
            if place not in self.made and place not in self.arguments:
                self.kept.setdefault(place, tensor)
        written = set(self._used_by(operation, args, kwargs, to_write=True))
        only_written = written if OVERWRITING.match(str(operation)) else frozenset()
        read = (operands.keys() - only_written) | set(self._used_by(operation, args, kwargs, to_write=False))
        only_moves = MOVING.match(str(operation)) is not None and all(map(self._is_moved, read))
        sources = frozenset().union(*map(self._sources_of, read))
        follows_arguments = not self.given.isdisjoint(read)
        for place in written:
            self.written.add(place)
            self._follow(place, sources, follows_arguments, only_moves=False)
        for tensor in self._tensors(output):
            place = storage_of(tensor)
            if place not in operands:  # otherwise a view, or written in place
                self.made[place] = tensor
                self._follow(place, sources, follows_arguments, only_moves and bool(read) and not follows_arguments)

    def state(self, made_before: Collection[Storage]) -> frozenset[Storage]:
        """Return the memory that hands something on from call to call.

        That is what the call reads and writes anew, and what the call before (which made `made_before`) has left.
        """
        rewritten = {place for place in self.written if place in self.kept and place in self._sources_of(place)}
        return frozenset(rewritten | (self.kept.keys() & made_before))

    def comes_from(self, tensor: Any, state: frozenset[Storage]) -> bool:
        """Whether a tensor is, or was computed from, one of these."""
        place = storage_of(tensor)
        return place in state or not state.isdisjoint(self._sources_of(place))

    def moved_from(self, tensor: Any) -> tuple[Any, ...]:
        """Return the kept operands that a tensor was put together from, none if anything was computed."""
        place = storage_of(tensor)
        return tuple(self.kept[source] for source in self._sources_of(place)) if place in self.moved else ()

    def _follow(self, place: Storage, sources: frozenset[Storage], follows_arguments: bool, only_moves: bool) -> None:
        self.sources[place] = sources
        self.moved.discard(place)
        if follows_arguments:
            self.given.add(place)
        if only_moves:
            self.moved.add(place)

    def _is_moved(self, place: Storage) -> bool:
        return place in self.moved or place not in self.made

    def _sources_of(self, place: Storage) -> frozenset[Storage]:
        if place in self.sources:
            return self.sources[place]
        return frozenset((place,)) if place in self.kept else frozenset()

    def _used_by(self, operation: Any, args: Any, kwargs: Any, *, to_write: bool) -> Iterator[Storage]:
        for index, argument in enumerate(operation._schema.arguments):
            if to_write == (argument.alias_info is not None and argument.alias_info.is_write):
                value = args[index] if index < len(args) else kwargs.get(argument.name)
                yield from map(storage_of, self._tensors(value))

    def _tensors(self, value: Any) -> list[Any]:
        leaves = self.torch.utils._pytree.tree_leaves(value)
        tensors = (leaf for leaf in leaves if isinstance(leaf, self.torch.Tensor))
        return [t for t in tensors if is_plain(t, self.torch) and t.numel() and _has_memory(t)]


def _has_memory(tensor: Any) -> bool:
    """Whether a tensor has an address: those that transformed functions compute with may have none."""
    try:
        return bool(storage_of(tensor))
    except RuntimeError:
        return False
