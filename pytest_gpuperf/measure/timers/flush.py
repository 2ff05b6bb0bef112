"""Flushing the device's last-level cache, so that every trial finds its inputs in memory."""

from __future__ import annotations

from typing import Any

MEBIBYTE_BYTES = 1 << 20
SIZE_RATIO = 2
UNKNOWN_CACHE_BYTES = 128 * MEBIBYTE_BYTES


class Flush:
    """Writes a buffer of twice the cache's size. What it leaves dirty is written back while the clock is metered."""

    def __init__(self, torch: Any, cache_bytes: int) -> None:
        self.size_bytes = flush_size_bytes(cache_bytes)
        self._buffer = torch.empty(self.size_bytes // 4, dtype=torch.int32, device="cuda")

    @property
    def name(self) -> str:
        """Size and kind, which are part of the timer's identity: what follows a flush pays for what it left."""
        return f"flush {self.size_bytes // MEBIBYTE_BYTES} MiB write"

    def start(self) -> None:
        """Queue the flush on the current stream."""
        self._buffer.zero_()


def flush_size_bytes(cache_bytes: int) -> int:
    """Return the size to write for a cache of `cache_bytes` (0: unknown), in whole MiB."""
    wanted = SIZE_RATIO * (cache_bytes or UNKNOWN_CACHE_BYTES)
    return -(-wanted // MEBIBYTE_BYTES) * MEBIBYTE_BYTES
