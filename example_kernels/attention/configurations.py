"""Tile sizes, warps and pipeline stages of the general attention kernels, by the width of a head.

None of them spills a register, which the ahead-of-time gate asserts. On an H200 `benchmarks/tune_kernels.py` measured
candidates for 16 bits, by descriptor: of heads of 64 and 128, and the backward kernels' of heads of 256. The others
were chosen by their registers alone.
"""

from __future__ import annotations

from typing import NamedTuple

MAXIMUM_HEAD_DIM = 256


class Tiles(NamedTuple):
    """Rows of a tile of queries and of keys, and how many warps work on it in how many pipeline stages."""

    queries: int
    keys: int
    warps: int
    stages: int


FORWARD_16_BITS = {64: Tiles(64, 128, 4, 2), 128: Tiles(128, 64, 8, 3), 256: Tiles(128, 64, 8, 2)}
FORWARD_16_BITS_BY_POINTER = {64: Tiles(64, 128, 4, 2), 128: Tiles(128, 64, 8, 3), 256: Tiles(128, 32, 8, 2)}
FORWARD_32_BITS = {
    16: Tiles(64, 32, 8, 2),
    32: Tiles(64, 64, 8, 2),
    64: Tiles(64, 32, 8, 2),
    128: Tiles(32, 16, 8, 1),
    256: Tiles(16, 16, 4, 1),
}

# Addresses take registers that descriptors leave free. Tiles of 64 keys and more are multiplied by warp groups.
KEYS_16_BITS = {64: Tiles(64, 64, 4, 2), 128: Tiles(64, 64, 4, 2), 256: Tiles(64, 64, 8, 2)}
KEYS_16_BITS_BY_POINTER = {64: Tiles(32, 64, 4, 2), 128: Tiles(32, 64, 8, 2), 256: Tiles(64, 32, 8, 1)}
KEYS_32_BITS = {16: Tiles(32, 32, 4, 1), 64: Tiles(32, 32, 8, 1), 128: Tiles(16, 16, 4, 1), 256: Tiles(16, 16, 8, 1)}

QUERIES_16_BITS = {64: Tiles(64, 64, 4, 3), 128: Tiles(64, 64, 4, 2), 256: Tiles(64, 64, 4, 2)}
QUERIES_16_BITS_BY_POINTER = {64: Tiles(64, 64, 4, 2), 128: Tiles(64, 64, 8, 2), 256: Tiles(128, 32, 8, 2)}
QUERIES_32_BITS = {
    32: Tiles(32, 32, 4, 1),
    64: Tiles(32, 32, 8, 1),
    128: Tiles(16, 32, 4, 1),
    256: Tiles(32, 16, 8, 1),
}


def _of_width(table: dict[int, Tiles], width: int) -> Tiles:
    """Return the entry of the narrowest tile that is wide enough."""
    return next(tiles for limit, tiles in sorted(table.items()) if width <= limit)


def forward_tiles(width: int, itemsize: int, described: bool) -> Tiles:
    """Return the forward kernel's tiles for a head of `width`, a power of two up to 256.

    `described` where its inputs come by descriptor.
    """
    if itemsize == 4:
        return _of_width(FORWARD_32_BITS, width)
    return _of_width(FORWARD_16_BITS if described else FORWARD_16_BITS_BY_POINTER, width)


def keys_tiles(width: int, itemsize: int, described: bool) -> Tiles:
    """Return the tiles of the kernel for dK and dV; `described` where its inputs come by descriptor."""
    if itemsize == 4:
        return _of_width(KEYS_32_BITS, width)
    return _of_width(KEYS_16_BITS if described else KEYS_16_BITS_BY_POINTER, width)


def queries_tiles(width: int, itemsize: int, described: bool) -> Tiles:
    """Return the tiles of the kernel for dQ; `described` where its inputs come by descriptor."""
    if itemsize == 4:
        return _of_width(QUERIES_32_BITS, width)
    return _of_width(QUERIES_16_BITS if described else QUERIES_16_BITS_BY_POINTER, width)
