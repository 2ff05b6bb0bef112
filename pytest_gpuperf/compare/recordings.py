"""Recorded samples in `.npz` files, read into run records by the way that live trials take.

Keys are `op__method`, arrays of runs × trials in microseconds in the order taken; `op__method_ghz`, where present, is
the clock metered before each trial. `op_pN` is a known slowdown of `op`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.measure.samples import RunRecord, Trials
from pytest_gpuperf.measure.summary import summarise

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_TRIALS = 20
"""Recordings keep no batch indices; they were taken in batches of twenty."""
CLOCK_SUFFIX = "_ghz"
_SLOWDOWN = re.compile(r"(?P<op>.+)_p\d+(?:\.\d+)?")

Suite = Mapping[str, Sequence[RunRecord]]
"""Runs of each benchmark, by name."""


class RecordingError(ValueError):
    """A recording that cannot be replayed; the message says why, and what would do."""


def load_recording(path: str | Path, *, method: str | None = None) -> dict[str, dict[str, list[RunRecord]]]:
    """Return the run records of a recording by method, then by operation; RecordingError where there are none."""
    import zipfile

    import numpy as np

    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise RecordingError(f"{path}: not a readable .npz recording ({error})") from error
    methods: dict[str, dict[str, list[RunRecord]]] = {}
    for key in arrays:
        op, separator, name = key.rpartition("__")
        if separator and not name.endswith(CLOCK_SUFFIX) and method in (None, name):
            methods.setdefault(name, {})[op] = _runs(key, arrays)
    if not methods:
        known = sorted({key.rpartition("__")[2] for key in arrays if "__" in key and not key.endswith(CLOCK_SUFFIX)})
        wanted = "operation__method" if method is None else f"operation__{method}"
        raise RecordingError(f"{path}: no key is named {wanted}; its methods are {', '.join(known) or 'none'}")
    return methods


def base_of(op: str, suite: Suite) -> str | None:
    """Return the operation that `op` is a known slowdown of, if the suite has it."""
    match = _SLOWDOWN.fullmatch(op)
    return match["op"] if match and match["op"] in suite else None


def _runs(key: str, arrays: Mapping[str, NDArray[Any]]) -> list[RunRecord]:
    times, clocks = arrays[key], arrays.get(key + CLOCK_SUFFIX)
    if times.ndim != 2 or (clocks is not None and clocks.shape != times.shape):
        raise RecordingError(f"{key}: expected an array of runs × trials (and clocks of the same shape)")
    batches = tuple(i // BATCH_TRIALS for i in range(times.shape[1]))
    rows = [()] * len(times) if clocks is None else [tuple(row) for row in clocks.astype(float).tolist()]
    return [
        summarise(Trials(times_us=tuple(row), batch_indices=batches, clocks_ghz=ghz))
        for row, ghz in zip(times.astype(float).tolist(), rows, strict=True)
    ]
