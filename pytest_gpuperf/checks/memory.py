"""Memory for the checks: how much they may take, and how to leave poison where outputs will be allocated."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pytest_gpuperf.checks.budget import OutOfTimeError
from pytest_gpuperf.checks.tensors import bits, size_bytes
from pytest_gpuperf.checks.watching import dispatch_mode
from pytest_gpuperf.measure.origins import attribute_of
from pytest_gpuperf.measure.tensors import is_plain

GPU_BYTES_PER_S = 2e11
HOST_BYTES_PER_S = 4e8
"""What handling memory is planned with, a busy machine in mind."""
MOST_OF_FREE_MEMORY = 0.5
MOST_HOST_BYTES = 1 << 29
POISON_BYTE = 0xFF
"""All elements made of it are NaN, to every floating type, and of a kind that no arithmetic yields."""
FREED_BYTES = 1 << 20
FEWEST_BLOCKS, MOST_BLOCKS = 4, 64
"""Of each size: free ones that the allocator has left from before are taken first."""
MADE_BY_COMPILE = "_torchdynamo_orig_callable"
COMPILED = re.compile(r"triton_[a-z]+_")
"""The names that Inductor gives to kernels: `triton_poi_fused_add_0`."""
EMPTY = re.compile(r"aten\.(new_)?empty")


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


def filling(
    byte: int, like: tuple[Any, ...], torch: Any, *, on_gpu: bool, in_dispatcher: bool = True
) -> AbstractContextManager[Any]:
    """Return a context in which memory that is not written shows nothing but `byte`.

    What asks for memory as it is passes torch's dispatcher, and gets it filled. On a GPU, blocks of the sizes of the
    tensors `like` are freed full of it besides, which the caching allocator hands out again to those who do not pass
    there. `in_dispatcher=False` is for callables that are not the same under a dispatch mode: compiled ones.
    """
    if on_gpu:
        _free_full_blocks(byte, like, torch)
    if not in_dispatcher:
        return nullcontext()

    def fill(operation: Any, _args: Any, _kwargs: Any, output: Any) -> None:
        if EMPTY.match(str(operation)):
            _fill(byte, output, torch)

    return dispatch_mode(fill)


def runs_compiled(fn: Any, kernels: Iterable[str]) -> bool:
    """Whether a callable is compiled, or has launched kernels as torch.compile names them."""
    return attribute_of(fn, MADE_BY_COMPILE) is not None or any(COMPILED.match(name) for name in kernels)


def _free_full_blocks(byte: int, like: tuple[Any, ...], torch: Any) -> None:
    for count_bytes in {size_bytes([tensor]) for tensor in like}:
        count = min(max(FEWEST_BLOCKS, FREED_BYTES // max(1, count_bytes)), MOST_BLOCKS)
        full = [torch.full((count_bytes,), byte, dtype=torch.uint8, device=like[0].device) for _ in range(count)]
        del full


def _fill(byte: int, tensor: Any, torch: Any) -> None:
    if type(tensor) is not torch.Tensor or not is_plain(tensor, torch) or not tensor.numel():
        return
    # What is captured would be part of the graph, and run with it ever after.
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    # All of it is new, whatever the strides.
    torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage()).fill_(byte)
    if tensor.is_cuda:
        # Whoever writes to it may do so on another stream, and need not wait for what this one does unasked.
        torch.cuda.current_stream(tensor.device).synchronize()


def is_made_of(byte: int, tensor: Any, torch: Any) -> Any:
    """Return which elements of a tensor are nothing but this byte."""
    return (bits(tensor, torch).reshape(-1, tensor.element_size()) == byte).all(dim=1)
