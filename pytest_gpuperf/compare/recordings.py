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
from pytest_gpuperf.measure.summary import LONGEST_TRIAL_US, summarise

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
    """Return the run records of a recording by method, then by operation; RecordingError where there are none.

    Other keys are not read. Pickled arrays are refused, never unpickled. Runs without a usable trial (as where runs
    that failed were filled with NaN) are left out.
    """
    import zipfile

    import numpy as np

    try:
        with Path(path).open("rb") as stream:
            if stream.read(2) != b"PK":
                raise RecordingError(f"{path}: not a readable .npz recording (it is no zip archive of arrays)")
            stream.seek(0)
            file = np.load(stream, allow_pickle=False)
            names = {key: _names(key, file.files) for key in file.files}
            wanted = {key: pair for key, pair in names.items() if pair is not None and method in (None, pair[1])}
            keys = [name for key in wanted for name in (key, key + CLOCK_SUFFIX) if name in names]
            arrays = {key: file[key] for key in keys}
    except RecordingError:
        raise
    except (OSError, ValueError, EOFError, AttributeError, MemoryError, zipfile.BadZipFile) as error:
        raise RecordingError(f"{path}: not a readable .npz recording ({error})") from error
    if not wanted:
        known = sorted({pair[1] for pair in names.values() if pair is not None})
        missing = "operation__method" if method is None else f"operation__{method}"
        raise RecordingError(f"{path}: no key is named {missing}; its methods are {', '.join(known) or 'none'}")
    methods: dict[str, dict[str, list[RunRecord]]] = {}
    for key, (op, name) in wanted.items():
        methods.setdefault(name, {})[op] = _runs(key, arrays)
    return methods


def base_of(op: str, suite: Suite) -> str | None:
    """Return the operation that `op` is a known slowdown of, if the suite has it."""
    match = _SLOWDOWN.fullmatch(op)
    return match["op"] if match and match["op"] in suite else None


def _names(key: str, keys: Sequence[str]) -> tuple[str, str] | None:
    """Return (operation, method) of a key; None for a clock, and for what is no sample."""
    op, _, method = key.rpartition("__")
    if not op or not method:
        return None
    is_metered = key + CLOCK_SUFFIX in keys
    return None if key.endswith(CLOCK_SUFFIX) and not is_metered else (op, method)


def _runs(key: str, arrays: Mapping[str, NDArray[Any]]) -> list[RunRecord]:
    times = _numbers(key, arrays[key])
    clocks = _numbers(key + CLOCK_SUFFIX, arrays[key + CLOCK_SUFFIX]) if key + CLOCK_SUFFIX in arrays else None
    if times.ndim != 2 or (clocks is not None and clocks.shape != times.shape):
        raise RecordingError(f"{key}: expected an array of runs × trials (and clocks of the same shape)")
    batches = tuple(i // BATCH_TRIALS for i in range(times.shape[1]))
    used = [i for i, row in enumerate(times) if ((row > 0) & (row <= LONGEST_TRIAL_US)).any()]
    if not used:
        raise RecordingError(f"{key}: no run has a positive, finite time")
    return [
        summarise(
            Trials(
                times_us=tuple(times[i].tolist()),
                batch_indices=batches,
                clocks_ghz=() if clocks is None else tuple(clocks[i].tolist()),
            )
        )
        for i in used
    ]


def _numbers(key: str, array: object) -> NDArray[Any]:
    """Return an array as double precision; RecordingError where it holds anything but real numbers."""
    import numpy as np

    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise RecordingError(f"{key}: expected real numbers")
    return array.astype(float)
