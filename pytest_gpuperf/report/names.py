"""Short and unique names of benchmarks for a table: the shortest ending of a label that tells it from the others."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_gpuperf.measure.plan import BenchmarkId

ELLIPSIS = "…"
# Shares of the room given to a name's head: names that differ only at one end need that end.
_HEAD_SHARES = (0.5, 0.25, 0.75, 0.0, 1.0)


def split_node_id(node_id: str) -> tuple[str, str, str]:
    """Split `tests/test_a.py::TestB::test_c[1-x]` into its file, `TestB::test_c` and `1-x` ("" where absent)."""
    file, _, rest = node_id.partition("::")
    if not rest:
        return "", node_id, ""
    function, bracket, params = rest.partition("[")
    return file, function, params.removesuffix("]") if bracket else ""


def natural_key(text: str) -> list[tuple[int, str, int]]:
    """A sort key that puts `test[256]` before `test[1024]`: runs of digits are ordered as numbers."""
    pieces = re.findall(r"[0-9]+|[^0-9]+", text)
    return [(0, "", int(piece)) if piece[0] in "0123456789" else (1, piece, 0) for piece in pieces]


def display_width(text: str) -> int:
    """Columns that `text` takes on a terminal: two for a wide character, none for a combining one."""
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def short_names(benchmarks: Iterable[BenchmarkId], width: int | None = None) -> dict[BenchmarkId, str]:
    """Name each benchmark by the shortest ending of its label that no other label ends with.

    With `width`, a longer name loses its middle, in such a way that all names stay different.
    """
    unique = list(dict.fromkeys(benchmarks))
    endings = {benchmark: _endings(benchmark) for benchmark in unique}
    seen = Counter(ending for candidates in endings.values() for ending in candidates)
    names = [next((e for e in endings[b] if seen[e] == 1), endings[b][-1]) for b in unique]
    if width is not None:
        names = shorten_all(names, width)
    return dict(zip(unique, names, strict=True))


def _endings(benchmark: BenchmarkId) -> list[str]:
    """Every name a benchmark could be called by, shortest first; the last is its whole label."""
    file, function, _ = split_node_id(benchmark.node_id)
    test = benchmark.label[len(file) + 2 :] if file else benchmark.label
    classes = function.split("::")[:-1]
    endings = [test]
    for name in classes:
        endings.append(endings[-1][len(name) + 2 :])
    endings.reverse()
    folders = file.split("/") if file else []
    endings += [f"{'/'.join(folders[start:])}::{test}" for start in range(len(folders) - 1, -1, -1)]
    return endings


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """Cut each name to `width` columns with an ellipsis in its middle; different names stay different.

    `width` is taken as at least 8, so that there is room for a distinguishing number.
    """
    width = max(width, 8)
    attempts = [[shorten(name, width, head_share) for name in names] for head_share in _HEAD_SHARES]
    best = max(attempts, key=lambda shortened: len(set(shortened)))
    return _numbered(names, best, width)


def shorten(name: str, width: int, head_share: float = 0.5) -> str:
    """Cut one name to `width` columns, `head_share` of the room to its beginning."""
    if display_width(name) <= width:
        return name
    room = width - display_width(ELLIPSIS)
    head = _clip(name, int(room * head_share))
    tail = _clip(name[::-1], room - display_width(head))[::-1]
    return f"{head}{ELLIPSIS}{tail}"


def _clip(text: str, width: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return text[:index]
    return text


def _numbered(names: Sequence[str], shortened: Sequence[str], width: int) -> list[str]:
    """Where different names were cut to the same text, end them in `~1`, `~2` … in the order of the full names."""
    wanted = dict(zip(names, shortened, strict=True))
    times_used = Counter(wanted.values())
    taken = {text for text, times in times_used.items() if times == 1}
    number = 0
    for name in sorted(name for name, text in wanted.items() if times_used[text] > 1):
        while wanted[name] in taken or times_used[wanted[name]] > 1:
            number += 1
            mark = f"{ELLIPSIS}~{number}"
            wanted[name] = _clip(name, width - display_width(mark)) + mark
        taken.add(wanted[name])
    return [wanted[name] for name in names]
