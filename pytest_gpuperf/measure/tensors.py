"""Tensors inside arguments and outputs: which can be copied, and how containers are rebuilt around them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

DEPTH = 4


def is_plain(tensor: Any, torch: Any) -> bool:
    """Whether a tensor has memory of its own that can be read and copied."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return False  # asking it anything may set it to work
    odd = tensor.is_nested or tensor.is_quantized or tensor.device.type == "meta"
    return tensor.layout is torch.strided and not odd


def mapped(
    value: Any, change: Callable[[Any], Any], torch: Any, depth: int = DEPTH, *, most_items: float = math.inf
) -> Any:
    """Return `value` with each plain tensor replaced by `change(tensor)`, nested containers rebuilt.

    Containers of more than `most_items` are left as they are.
    """
    if isinstance(value, torch.Tensor):
        return change(value) if is_plain(value, torch) else value
    if not depth or type(value) not in (tuple, list, dict) or len(value) > most_items:
        return value
    if type(value) is dict:
        return {key: mapped(item, change, torch, depth - 1, most_items=most_items) for key, item in value.items()}
    return type(value)(mapped(item, change, torch, depth - 1, most_items=most_items) for item in value)
