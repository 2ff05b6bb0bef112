"""What is to be measured: the benchmark's identity, its workload, and how to time it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.settings import BenchmarkSettings

if TYPE_CHECKING:
    from pytest_gpuperf.measure.backends.base import Timer

Annotate = Callable[[str], AbstractContextManager[None]]
Setup = Callable[[], tuple[Sequence[Any], Mapping[str, Any]]]

KEY_LIMIT_CHARACTERS = 120
NODE_ID_LIMIT_CHARACTERS = 240


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _printable(text: str) -> str:
    """`text` with lone surrogates and control characters escaped, so that it is strict JSON and safe on a terminal."""
    safe = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in safe)


def _bounded(text: str) -> str:
    """`text` itself where it is printable and short; otherwise what can be shown of it, told apart by a digest."""
    shown = _printable(text)
    if shown == text and len(text) <= NODE_ID_LIMIT_CHARACTERS:
        return text
    suffix = f"~{_digest(text)}"
    return shown[: NODE_ID_LIMIT_CHARACTERS - len(suffix)] + suffix


class BenchmarkId(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, order=True):
    """Which benchmark: the test's node id (relative to rootdir, bounded) and the name within the test ("" for one)."""

    node_id: str
    name: str = ""

    @classmethod
    def of(cls, node_id: str, name: str = "") -> BenchmarkId:
        """Build the id of a test's benchmark; ids of any length and alphabet give bounded, printable, unique ones."""
        return cls(node_id=_bounded(node_id), name=_bounded(name))

    @property
    def label(self) -> str:
        """How people are told of it: the node id, and the name where the test has several."""
        return f"{self.node_id} ({self.name})" if self.name else self.node_id

    @property
    def key(self) -> str:
        """A short, unique name of ASCII letters, digits, `.`, `_` and `-`, fit for a file or a JSON key."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", self.label)
        if plain and plain == self.label and len(plain) <= KEY_LIMIT_CHARACTERS:
            return plain
        digest = _digest(f"{self.node_id}\0{self.name}")
        return f"{plain[: KEY_LIMIT_CHARACTERS - 13]}-{digest}".strip("-")


class Workload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the call works on: tensor arguments (`float32[4096,1024]@cuda`), stated bytes moved and operations."""

    arguments: str = ""
    bytes_moved: float | None = None
    flops: float | None = None


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What must agree before two results may be compared: the timer with its cache mode, and the workload.

    The machine model is the third; it is the key under which results are stored.
    """

    timer: str
    cache: str
    workload: Workload


def timer_kind(identity: Identity) -> str:
    """Return the kind of timer that results were measured with: the first word of its description."""
    return identity.timer.partition(",")[0].strip()


def unmarked(_name: str) -> AbstractContextManager[None]:
    """Mark nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one measurement is to do."""

    benchmark: BenchmarkId
    settings: BenchmarkSettings = field(default_factory=BenchmarkSettings)
    workload: Workload = field(default_factory=Workload)
    setup: Setup | None = None
    """Called before every call, outside the timed region; its result `(args, kwargs)` is passed to the call."""
    timer: Timer | None = None
    """The timer to use; None for the back end's own choice by `settings.timer`."""
    preferred_timer: str | None = None
    """What `auto` is to be if it can: the kind of the results that this one is to be compared with."""
    annotate: Annotate = unmarked
    """Marks a phase of the measurement by its name, for a timeline."""
    session: str = ""
    """Id of the session that the run record is filed under."""
