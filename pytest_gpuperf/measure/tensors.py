"""Tensors inside arguments and outputs: which can be copied, and how containers are rebuilt around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DEPTH = 4
MOST_ITEMS = 4096
"""Longer containers hold numbers or text: looking through them takes more time than there is."""


def is_plain(tensor: Any, torch: Any) -> bool:
    """Whether a tensor has memory of its own that can be read and copied."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return False  # asking it anything may set it to work
    odd = tensor.is_nested or tensor.is_quantized or tensor.device.type == "meta"
    return tensor.layout is torch.strided and not odd


def mapped(value: Any, change: Callable[[Any], Any], torch: Any, depth: int = DEPTH) -> Any:
    """Return `value` with each plain tensor replaced by `change(tensor)`, nested containers rebuilt."""
    if isinstance(value, torch.Tensor):
        return change(value) if is_plain(value, torch) else value
    if not depth or type(value) not in (tuple, list, dict) or len(value) > MOST_ITEMS:
        return value
    if type(value) in (tuple, list):
        return type(value)(mapped(item, change, torch, depth - 1) for item in value)
    return {key: mapped(item, change, torch, depth - 1) for key, item in value.items()}
