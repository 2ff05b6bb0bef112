"""Tensors inside arguments and outputs: finding, copying, refilling and comparing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_gpuperf.measure.tensors import DEPTH, is_plain

MOST_ITEMS = 4096
"""Longer containers hold numbers or text: looking through them takes more time than there is."""
REBUILT = (tuple, list, dict)
SAMPLES = 4096
EARLY_SCALE, FRESH_SCALE, ALONE_SCALE = 0.75, 0.625, 0.5
"""Fresh values are the old ones in reverse order, times one of these: within the old range, of the old structure."""
NEAR_SCALE = 1 - 2**-7
FILLER_PERIOD = 97
ALIGNMENT_BYTES = 16
DIFFERENT_SHARE = 0.05
"""Two outputs differ grossly if the norm of their difference is more than this share of the norm: no rounding does."""

NOISE = 1e-12
"""Outputs that are next to nothing do not differ. Gradients of 1e-8 are something."""


def tensors_in(
    value: Any, torch: Any, place: str = "", depth: int = DEPTH, *, rebuilt: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield (place, tensor) for each plain strided tensor in nested tuples, lists and mappings.

    `rebuilt`: only in containers that `mapped` (in `measure.tensors`) can build anew.
    """
    if isinstance(value, torch.Tensor):
        if is_plain(value, torch):
            yield place, value
    elif depth and not (rebuilt and type(value) not in REBUILT):
        for key, item in _items(value):
            yield from tensors_in(item, torch, f"{place}[{key!r}]", depth - 1, rebuilt=rebuilt)


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(value, Mapping | tuple | list) or len(value) > MOST_ITEMS:
        return ()
    return value.items() if isinstance(value, Mapping) else enumerate(value)


def arguments_in(args: Any, kwargs: Mapping[str, Any], torch: Any) -> dict[str, Any]:
    """Return the plain tensors of a call's arguments by what people call them: `argument 0`, `argument weight`."""
    found: dict[str, Any] = {}
    for index, value in enumerate(args):
        found.update(tensors_in(value, torch, f"argument {index}", rebuilt=True))
    for name, value in kwargs.items():
        found.update(tensors_in(value, torch, f"argument {name}", rebuilt=True))
    return found


def size_bytes(tensors: Iterable[Any]) -> int:
    """Return the bytes of all elements together."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def storage_of(tensor: Any) -> tuple[str, int]:
    """Return what is the same for two tensors that share memory, and for no others."""
    return str(tensor.device), int(tensor.untyped_storage().data_ptr())


def copy_of(tensor: Any, torch: Any) -> Any:
    """Return a tensor of the same values, strides, alignment and kind in memory of its own."""
    with torch.no_grad():
        source = tensor.detach()
        offset = (source.data_ptr() % ALIGNMENT_BYTES) // source.element_size()
        memory = torch.empty(_reach(source) + offset, dtype=source.dtype, device=source.device)
        copied = memory.as_strided(source.shape, source.stride(), offset)
        overwrite(copied, source)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copied, requires_grad=tensor.requires_grad)
    return copied.requires_grad_(tensor.requires_grad)


def overwrite(target: Any, source: Any) -> None:
    """Copy the values of `source` into `target`, which has the same strides."""
    once = _once(target)
    target.detach()[once].copy_(source.detach()[once])


def _once(tensor: Any) -> tuple[slice, ...]:
    """Return what takes each place in memory once: an expanded dimension repeats it, and cannot be written as it is."""
    return tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())


def _reach(tensor: Any) -> int:
    """Return how many elements of memory lie between a tensor's first and last, both included."""
    if not tensor.numel():
        return 0
    return int(1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)))


def refill(tensor: Any, torch: Any, scale: float) -> None:
    """Give a tensor of real or complex numbers other values of the same kind; leave integers, which may be indices."""
    if not is_floating(tensor):
        return
    with torch.no_grad():
        target = tensor.detach()[_once(tensor)]
        if tensor.element_size() == 1:
            # There is no arithmetic in eight bits, but they can be moved.
            raw = target.view(torch.uint8)
            raw.copy_(torch.flip(raw, tuple(range(raw.dim()))))
            return
        fresh = torch.flip(target, tuple(range(target.dim()))) * scale
        if torch.equal(fresh, target):
            ramp = torch.arange(target.numel(), device=target.device) % FILLER_PERIOD / FILLER_PERIOD
            fresh = (ramp * scale).reshape(target.shape).to(target.dtype)
        target.copy_(fresh)


def turned(tensor: Any, torch: Any) -> Any:
    """Return a copy of the same strides with other values, for whatever reads them next.

    Numbers come in reverse order and with the other sign, as what is kept within bounds in place should not pass for
    untouched; integers in reverse order, so that what indexed something before still does.
    """
    copied = copy_of(tensor, torch).detach()
    target = copied[_once(copied)]
    if copied.dtype is torch.bool:
        target.logical_not_()
        return copied
    refill(copied, torch, -FRESH_SCALE)
    if not is_floating(copied):
        target.copy_(torch.flip(target, tuple(range(target.dim()))))
    return copied


def write_past_autograd(target: Any, source: Any, torch: Any) -> None:
    """Copy the values of `source` into `target` without autograd's notice, so that saved graphs stay valid."""
    with torch.inference_mode(target.is_inference()):
        overwrite(target.data, source)


def shrunk(tensor: Any, torch: Any) -> Any:
    """Return a copy a little nearer to zero: still sorted, still symmetric, still of about the same sum and length."""
    copied = copy_of(tensor, torch)
    if is_floating(tensor) and tensor.element_size() > 1:
        with torch.no_grad():
            copied.detach()[_once(copied)].mul_(NEAR_SCALE)
    return copied


def moved(tensor: Any, torch: Any, most: float) -> Any:
    """Return a copy in which each element is nearer to zero by its own share of its value, `most` at most."""
    copied = copy_of(tensor, torch)
    if is_floating(tensor) and tensor.element_size() > 1:
        with torch.no_grad():
            target = copied.detach()[_once(copied)]
            ramp = torch.arange(target.numel(), device=target.device) % FILLER_PERIOD / FILLER_PERIOD
            factors = 1 - most * (1 + ramp.double()) / 2
            target.copy_((target.reshape(-1) * factors).reshape(target.shape))
    return copied


def nudged(tensor: Any, torch: Any) -> Any:
    """Return a copy in which one element, a finite one if there is any, differs in its last bit."""
    copied = copy_of(tensor, torch)
    target = copied.detach()[_once(copied)]
    if target.numel():
        finite = torch.isfinite(target.float() if target.element_size() == 1 else target).reshape(-1)
        place = tuple(int(i) for i in torch.unravel_index(finite.to(torch.uint8).argmax(), target.shape))
        with torch.no_grad():
            one = target[place].clone().reshape(1)
            one.view(torch.uint8)[0] ^= 1  # the least significant byte comes first
            target[place] = one[0]
    return copied


def is_floating(tensor: Any) -> bool:
    """Whether the elements are real or complex numbers."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def same_bits(a: Any, b: Any, torch: Any) -> bool:
    """Whether two tensors are the same to the last bit, NaN included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(bits(a, torch), bits(b, torch)))


def same_values(a: Any, b: Any, torch: Any) -> bool:
    """Whether two tensors hold the same values, zeros of either sign and NaN being equal."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(equal_elements(a, b, torch).all())


def depends_on_its_past(one: tuple[Any, Any], other: tuple[Any, Any], torch: Any) -> bool:
    """Compare two (before, after) pairs: whether any element that was written depends on what it was before.

    An element is left alone, or written with something that does not depend on it, where it is unchanged in both, or
    the same in both afterwards.
    """
    (before_a, after_a), (before_b, after_b) = (tuple(tensor.detach() for tensor in pair) for pair in (one, other))
    untouched = equal_elements(before_a, after_a, torch) & equal_elements(before_b, after_b, torch)
    return bool((~(untouched | equal_elements(after_a, after_b, torch))).any())


def equal_elements(a: Any, b: Any, torch: Any) -> Any:
    """Return which elements are equal, zeros of either sign and NaN being so."""
    return (a == b) | (torch.isnan(a) & torch.isnan(b)) if is_floating(a) else a == b


def same_samples(one: tuple[Any, ...], other: tuple[Any, ...], torch: Any) -> bool:
    """Whether two calls' samples are the same to the last bit."""
    return len(one) == len(other) and all(same_bits(a, b, torch) for a, b in zip(one, other, strict=True))


def bits(tensor: Any, torch: Any) -> Any:
    """Return the tensor's bytes."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def sample(tensor: Any, torch: Any) -> Any:
    """Return up to `SAMPLES` elements, evenly spread, in double precision on the CPU: enough to tell outputs apart."""
    flat = tensor.detach().reshape(-1)
    step = max(1, flat.numel() // SAMPLES)
    chosen = flat[::step][:SAMPLES].clone()
    return chosen.to("cpu", torch.complex128 if chosen.is_complex() else torch.float64)


def differs_grossly(a: Any, b: Any, torch: Any, share: float = DIFFERENT_SHARE) -> bool:
    """Whether samples of two outputs are apart by more than any rounding; what is not finite in both is left out."""
    if a.shape != b.shape:
        return True
    both = torch.isfinite(a) & torch.isfinite(b)
    if int(both.sum()) < (torch.isfinite(a) | torch.isfinite(b)).sum() / 2:
        return True
    norm = torch.linalg.vector_norm
    distance = norm((a - b)[both])
    return bool(distance > share * torch.maximum(norm(a[both]), norm(b[both])) and distance > NOISE)


def checksum(tensor: Any, torch: Any) -> int:
    """Return a number that changes with any element and with their order (an exact sum of weighted bytes)."""
    raw = bits(tensor, torch)
    whole = raw.numel() // 8 * 8
    words = raw[:whole].view(torch.int64) if raw.storage_offset() % 8 == 0 else raw[:whole].to(torch.int64)
    weights = torch.arange(1, words.numel() + 1, device=words.device)
    # Integers wrap around, which loses nothing here.
    return int((words * weights).sum()) ^ int(raw[whole:].to(torch.int64).sum())
