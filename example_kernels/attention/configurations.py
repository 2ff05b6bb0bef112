"""Tile sizes, warps and pipeline stages of the attention kernels, as tuned on an H200."""

from __future__ import annotations

from typing import NamedTuple


class Tiles(NamedTuple):
    """Rows of a tile of queries and of keys, and how many warps work on it in how many pipeline stages."""

    queries: int
    keys: int
    warps: int
    stages: int


FORWARD_16_BITS = {64: Tiles(128, 64, 4, 2), 128: Tiles(128, 64, 4, 2), 256: Tiles(128, 64, 8, 2)}
FORWARD_16_BITS_CAUSAL = {64: Tiles(64, 64, 4, 3), 128: Tiles(128, 64, 4, 2), 256: Tiles(128, 64, 8, 2)}
FORWARD_32_BITS = {64: Tiles(64, 32, 8, 2), 128: Tiles(64, 32, 8, 2), 256: Tiles(32, 32, 8, 1)}

KEYS_16_BITS = {64: Tiles(64, 128, 8, 2), 128: Tiles(64, 64, 8, 2), 256: Tiles(32, 64, 8, 1)}
KEYS_32_BITS = {64: Tiles(32, 32, 8, 1), 128: Tiles(32, 32, 8, 1), 256: Tiles(16, 32, 8, 1)}

QUERIES_16_BITS = {64: Tiles(128, 64, 8, 3), 128: Tiles(128, 64, 8, 2), 256: Tiles(64, 64, 8, 1)}
QUERIES_32_BITS = {64: Tiles(32, 32, 8, 1), 128: Tiles(32, 32, 8, 1), 256: Tiles(32, 16, 8, 1)}


def _of_width(table: dict[int, Tiles], width: int) -> Tiles:
    """Return the entry of the narrowest tile that is wide enough."""
    return next(tiles for limit, tiles in sorted(table.items()) if width <= limit)


def forward_tiles(width: int, causal: bool, itemsize: int) -> Tiles:
    """Return the forward kernel's tiles for a head of `width`, a power of two up to 256."""
    if itemsize == 4:
        return _of_width(FORWARD_32_BITS, width)
    return _of_width(FORWARD_16_BITS_CAUSAL if causal else FORWARD_16_BITS, width)


def keys_tiles(width: int, itemsize: int) -> Tiles:
    """Return the tiles of the kernel for dK and dV."""
    return _of_width(KEYS_32_BITS if itemsize == 4 else KEYS_16_BITS, width)


def queries_tiles(width: int, itemsize: int) -> Tiles:
    """Return the tiles of the kernel for dQ."""
    return _of_width(QUERIES_32_BITS if itemsize == 4 else QUERIES_16_BITS, width)
