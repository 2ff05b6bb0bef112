"""The short text that says what a call works on, so that only like is compared with like."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

LIMIT_CHARACTERS = 200
ITEM_LIMIT_CHARACTERS = 60
ITEMS_SHOWN = 8
DEPTH_SHOWN = 3
INTEGER_LIMIT_BITS = 128


def describe_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Describe the arguments of a call, the same in every process: `float32[4096,1024]@cuda, dim=-1`.

    Tensors and arrays are told by dtype, shape, strides where they are not contiguous, and device type; numbers,
    short strings and short containers by value, since they say what is to be done. What is longer is data, as tensors
    are, and may be drawn anew in every process: it is told by its kind and length. Anything else is told by its type,
    since its repr may hold an address. At most `LIMIT_CHARACTERS` characters; what is cut off goes into a digest at
    the end.
    """
    positional = [_describe(value, 0) for value in args]
    named = [f"{name}={_describe(kwargs[name], 0)}" for name in sorted(kwargs)]
    return _bounded(", ".join(positional + named), LIMIT_CHARACTERS)


def _bounded(text: str, limit_characters: int) -> str:
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    if len(printable) <= limit_characters:
        return printable
    digest = hashlib.sha256(printable.encode()).hexdigest()[:12]
    return f"{printable[: limit_characters - 13]}~{digest}"


def _describe(value: object, depth: int, *, as_data: bool = False) -> str:
    """Describe one value; `as_data` leaves out what may differ from one piece of data to the next."""
    if isinstance(value, Enum):
        return type(value).__name__ if as_data else f"{type(value).__name__}.{value.name}"
    return (
        _describe_tensor(value, as_data)
        or ("" if as_data else _describe_plain(value))
        or _describe_container(value, depth, as_data)
        or type(value).__name__
    )


def _describe_plain(value: object) -> str | None:
    if value is None or isinstance(value, bool | float | complex):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if value.bit_length() <= INTEGER_LIMIT_BITS else f"int of {value.bit_length()} bits"
    if isinstance(value, str | bytes):
        text = _bounded(repr(value), len(value) * 10 + 3)
        return text if len(text) <= ITEM_LIMIT_CHARACTERS else f"{type(value).__name__} of {len(value)}"
    return None


def _describe_tensor(value: object, as_data: bool) -> str | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _describe_torch(value, torch)
    if torch is not None and isinstance(value, torch.dtype | torch.device):
        return str(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        strides = "" if value.flags.c_contiguous else f"/{_joined(value.strides)}"
        return f"{value.dtype}[{_joined(value.shape)}]{strides}"
    if numpy is not None and isinstance(value, numpy.generic):
        return str(value.dtype) if as_data else f"{value.dtype}({value})"
    return None


def _describe_torch(tensor: Any, torch: Any) -> str:
    layout = tensor.layout
    strided = layout is torch.strided and not tensor.is_nested
    if strided:
        strides = "" if tensor.is_contiguous() else f"/{_joined(tensor.stride())}"
    else:
        strides = "/nested" if tensor.is_nested else f"/{str(layout).removeprefix('torch.')}"
    shape = "" if tensor.is_nested else _joined(tensor.shape)
    return f"{str(tensor.dtype).removeprefix('torch.')}[{shape}]{strides}@{tensor.device.type}"


def _describe_container(value: object, depth: int, as_data: bool) -> str | None:
    if not isinstance(value, Mapping | tuple | list):
        return None
    if depth == DEPTH_SHOWN:
        return f"{type(value).__name__} of {len(value)}"
    as_data = as_data or len(value) > ITEMS_SHOWN
    if isinstance(value, Mapping):
        texts = [
            f"{_describe(k, depth + 1, as_data=as_data)}: {_describe(v, depth + 1, as_data=as_data)}"
            for k, v in _first(value.items())
        ]
        return f"{{{_listed(texts, len(value))}}}"
    items = _listed([_describe(item, depth + 1, as_data=as_data) for item in _first(value)], len(value))
    return f"({items})" if isinstance(value, tuple) else f"[{items}]"


def _first(items: Iterable[Any]) -> Iterable[Any]:
    return (item for item, _ in zip(items, range(ITEMS_SHOWN), strict=False))


def _listed(texts: Sequence[str], count: int) -> str:
    if count <= ITEMS_SHOWN:
        return ", ".join(texts)
    return f"{', '.join(dict.fromkeys(texts))}, … of {count}"


def _joined(numbers: Iterable[object]) -> str:
    return ",".join(str(number) for number in numbers)
