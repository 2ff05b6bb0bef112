"""Tensors that a callable reaches without being given them: closure variables, globals, a module's parameters.

A call that works on them finds them where the last call left them, in the cache. The search is bounded, and looks at
what Python shows: what a compiled extension keeps is not seen.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_gpuperf.measure.origins import package_of

DEPTH = 5
MOST_ITEMS = 2000
"""Of what is looked at, all in all; what has more counts as holding a tensor."""
LIBRARIES = ("torch", "triton", "numpy", "functools", "builtins")
"""Whose functions and objects hold none of the user's tensors, or show them as attributes of `torch.nn.Module`."""
WRAPPED = ("__wrapped__", "_torchdynamo_orig_callable")
"""Attributes by which one callable shows another that it calls."""
METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)

Named = tuple[str, Any]


def held_tensor(value: Any, torch: Any, device_type: str) -> str | None:
    """Return what to call a tensor on such a device that `value` holds, `closure variable weight`; None without one."""
    seen: dict[int, Any] = {}  # with the items themselves, so that no other gets the id of one that is gone
    waiting: list[tuple[str, Any, int]] = [("", value, DEPTH)]
    while waiting:
        if len(seen) >= MOST_ITEMS:
            return "or more objects than can be looked through"
        name, item, depth = waiting.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, torch.Tensor):
            if item.device.type == device_type:
                return name or "a tensor"
        elif depth:
            waiting += [(inner or name, held, depth - 1) for inner, held in _held_by(item, torch)]
    return None


def _held_by(item: Any, torch: Any) -> Iterator[Named]:
    if isinstance(item, torch.nn.Module):
        yield from ((f"parameter {name}", tensor) for name, tensor in item.named_parameters())
        yield from ((f"buffer {name}", tensor) for name, tensor in item.named_buffers())
    elif isinstance(item, functools.partial):
        yield from (("", held) for held in (item.func, *item.args, *item.keywords.values()))
    elif isinstance(item, types.FunctionType):
        yield from _of_function(item)
    elif isinstance(item, METHODS):
        yield "the object whose method it is", item.__self__
        yield "", getattr(item, "__func__", None)
    elif isinstance(item, Mapping):
        yield from (("", held) for held in list(item.values()))
    elif isinstance(item, tuple | list | set | frozenset):
        yield from (("", held) for held in item)
    elif not isinstance(item, type | types.ModuleType | str | bytes | int | float):
        yield from _of_object(item)


def _of_function(function: types.FunctionType) -> Iterator[Named]:
    yield from (("", held) for name, held in list(vars(function).items()) if name in WRAPPED)
    if package_of(function) in LIBRARIES:
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"closure variable {name}", cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    yield from (("a default argument", held) for held in function.__defaults__ or ())
    yield from ((f"default of {name}", held) for name, held in (function.__kwdefaults__ or {}).items())
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"global {name}", function.__globals__[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _of_object(item: Any) -> Iterator[Named]:
    library = package_of(type(item)) in LIBRARIES
    for name, held in list((getattr(item, "__dict__", None) or {}).items()):
        if name in WRAPPED:
            yield "", held
        elif not library:
            yield f"attribute {name}", held
    for name in () if library else getattr(type(item), "__slots__", ()):
        yield f"attribute {name}", getattr(item, name, None)
