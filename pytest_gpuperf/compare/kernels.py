"""What became of the kernels of one call: which came, which went, and which are another variant of what was there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

NAMED_KERNELS = 3
SHOWN_CHARACTERS = 70
VARIANT_PARTS = re.compile(r"<.*|…?~[0-9a-f]{8}$|\d+")
"""Template arguments, digests of shortened names, and numbers (tile sizes, the compiler's own numbering)."""


def count_launches(kernels: Sequence[str]) -> Counter[str]:
    """Return how often each kernel of a list is launched; a long list has each name once, as `name ×count`."""
    counts: Counter[str] = Counter()
    for entry in kernels:
        name, times, count = entry.rpartition(" ×")
        if times and count.isdecimal():
            counts[name] += int(count)
        else:
            counts[entry] += 1
    return counts


def kernel_changes(before: Sequence[str], after: Sequence[str]) -> str:
    """Say what changed between two lists; empty where nothing did.

    `kernels changed: −gelu_kernel, +copy_kernel ×2, gemm_64x64 → gemm_128x64`: a minus for what went, a plus for what
    came, an arrow for what is now another specialisation of the same kernel.
    """
    old, new = count_launches(before), count_launches(after)
    gone, come = old - new, new - old
    if not gone and not come:
        return "" if tuple(before) == tuple(after) else "the same kernels, launched in another order"
    respecialised = _take_pairs(gone, come)
    parts = [*_named("−", gone), *_named("+", come), *_listed([f"{_short(a)} → {_short(b)}" for a, b in respecialised])]
    return f"kernels changed: {', '.join(parts)}"


def family(kernel: str) -> str:
    """Return what the specialisations of one kernel have in common."""
    return VARIANT_PARTS.sub("", kernel)


def _take_pairs(gone: Counter[str], come: Counter[str]) -> list[tuple[str, str]]:
    """Take the pairs of one family out of both, as many of each as there are."""
    pairs = []
    for old in list(gone):
        for new in list(come):
            if family(old) == family(new) and gone[old] == come[new]:
                pairs.append((old, new))
                del gone[old], come[new]
                break
    return pairs


def _named(sign: str, kernels: Counter[str]) -> list[str]:
    names = [f"{sign}{_short(name)}" + (f" ×{count}" if count > 1 else "") for name, count in kernels.most_common()]
    return _listed(names, sign)


def _listed(items: list[str], sign: str = "") -> list[str]:
    hidden = len(items) - NAMED_KERNELS
    return items if hidden <= 0 else [*items[:NAMED_KERNELS], f"{sign}{hidden} more"]


def _short(name: str) -> str:
    half = SHOWN_CHARACTERS // 2
    return name if len(name) <= SHOWN_CHARACTERS else f"{name[:half]}…{name[-half:]}"
