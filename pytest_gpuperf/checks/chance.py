"""What tells two outputs apart beyond chance: a random flag is often the same as another, a random matrix never."""

from __future__ import annotations

from typing import Any

from pytest_gpuperf.checks import tensors

FEWEST_ELEMENTS = 8
"""So many that differ are beyond chance, whatever they are."""

Samples = tuple[Any, ...]


def differ_in_many(one: Samples, other: Samples, torch: Any) -> bool:
    """Whether two outputs differ in so many elements, or in their shapes."""
    if [sample.shape for sample in one] != [sample.shape for sample in other]:
        return True
    return sum(int(values.shape[1]) for values in _where_they_differ(one, other, torch)) >= FEWEST_ELEMENTS


def tell_apart(one: Samples, other: Samples, torch: Any) -> bool:
    """Whether two outputs differ in many elements, or in any that is no whole number: flags and counts say little."""
    if differ_in_many(one, other, torch):
        return True
    values = _where_they_differ(one, other, torch)
    return any(bool((torch.isfinite(pairs) & (pairs != pairs.round())).any()) for pairs in values)


def _where_they_differ(one: Samples, other: Samples, torch: Any) -> list[Any]:
    """Return the elements of both, parts of complex ones by themselves, where they are not the same."""
    found = []
    for sample_of_one, sample_of_other in zip(one, other, strict=True):
        a, b = _reals(sample_of_one, torch), _reals(sample_of_other, torch)
        differ = ~tensors.equal_elements(a, b, torch)
        found.append(torch.stack((a[differ], b[differ])))
    return found


def _reals(sample: Any, torch: Any) -> Any:
    return (torch.view_as_real(sample) if sample.is_complex() else sample).reshape(-1)
