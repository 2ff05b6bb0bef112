"""The list of a call's kernels as it is stored: short names in launch order, of bounded size."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

from pytest_gpuperf.checks.launches import Launch

NAME_LIMIT_CHARACTERS = 120
LIST_LIMIT = 256
PARAMETERS = r"^void (.*?)\((?!anonymous)[^()]*\)$"
NAMESPACES = r"^void |\(anonymous namespace\)::|at::native::|<unnamed>::"
"""What is the same in all names of C++ kernels: the return type before them, parameters, namespaces."""


def stored_names(launches: Sequence[Launch]) -> tuple[str, ...]:
    """Return the names in launch order; of long lists each name once, as `name ×count`, the rarest put together."""
    names = [short_name(launch.name) for launch in launches]
    if len(names) <= LIST_LIMIT:
        return tuple(names)
    counts = Counter(names)
    kept = counts.most_common(LIST_LIMIT - 1)
    rest = len(names) - sum(count for _, count in kept)
    return tuple(f"{name} ×{count}" for name, count in [*kept, *([("others", rest)] if rest else [])])


def short_name(name: str) -> str:
    """Drop what all C++ kernels have in their names, and the middle of what is still too long, told by a digest."""
    plain = re.sub(NAMESPACES, "", re.sub(PARAMETERS, r"\1", name))
    if len(plain) <= NAME_LIMIT_CHARACTERS:
        return plain
    digest = hashlib.sha256(plain.encode()).hexdigest()[:8]
    half = (NAME_LIMIT_CHARACTERS - 10) // 2
    return f"{plain[:half]}…{plain[-half:]}~{digest}"
