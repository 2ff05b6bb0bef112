"""Memory for the checks: how much they may take, and how to leave poison where outputs will be allocated."""

from __future__ import annotations

from typing import Any

from pytest_gpuperf.checks.budget import OutOfTimeError
from pytest_gpuperf.checks.tensors import size_bytes

GPU_BYTES_PER_S = 2e11
HOST_BYTES_PER_S = 1e9
"""What handling memory is planned with, a busy machine in mind."""
MOST_OF_FREE_MEMORY = 0.5
MOST_HOST_BYTES = 1 << 29
POISON_BYTE = 0xFF
"""All elements made of it are NaN, to every floating type, and of a kind that no arithmetic yields."""
POISONED_BYTES = 1 << 20
"""Of each size, in as many blocks as fit: free ones that an allocator has left from before are taken first."""
FEWEST_BLOCKS, MOST_BLOCKS = 4, 64


def reserve_memory(count_bytes: int, device: str, torch: Any) -> float:
    """Return the seconds that handling so many bytes takes; raise `OutOfTimeError` where they do not fit in."""
    if not device.startswith("cuda"):
        if count_bytes > MOST_HOST_BYTES:
            raise OutOfTimeError
        return count_bytes / HOST_BYTES_PER_S
    free_bytes, _ = torch.cuda.mem_get_info(device)
    if count_bytes > MOST_OF_FREE_MEMORY * free_bytes:
        raise OutOfTimeError
    return count_bytes / GPU_BYTES_PER_S


def free_filled(byte: int, like: tuple[Any, ...], torch: Any) -> list[Any]:
    """Free blocks of the sizes of these tensors whose every byte is `byte`.

    Return what is to be kept until the memory has been used: without it, the host's allocator would find all it was
    given free again and give it back to the system.
    """
    sizes = {(tensor.device, size_bytes([tensor])) for tensor in like}
    blocks = [
        [torch.full((count_bytes,), byte, dtype=torch.uint8, device=device) for _ in range(_blocks(count_bytes))]
        for device, count_bytes in sizes
    ]
    return [of_one_size[-1] for of_one_size in blocks]


def _blocks(count_bytes: int) -> int:
    return min(max(FEWEST_BLOCKS, POISONED_BYTES // max(1, count_bytes)), MOST_BLOCKS)


def is_poison(tensor: Any, torch: Any) -> Any:
    """Return which elements of a tensor are nothing but poison."""
    item_bytes = tensor.element_size()
    raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).reshape(-1, item_bytes)
    return (raw == POISON_BYTE).all(dim=1)
