"""Whose call changed the inputs that all implementations of a comparison are called on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pytest_gpuperf.measure.tensors import mapped


class InputVersions:
    """The inputs' tensors, each with torch's count of the writes to it. Arrays of NumPy do not count them."""

    def __init__(self, inputs: Any) -> None:
        self._tensors: list[Any] = []
        torch = sys.modules.get("torch")
        if torch is not None:
            mapped(inputs, self._tensors.append, torch)
        self._versions = self._present()

    def changed_by(self, caller: str) -> Iterator[str]:
        """Yield a remark if the tensors have been written to since the last time."""
        before, self._versions = self._versions, self._present()
        if self._versions != before:
            yield (
                f"{caller} has changed the inputs in place before it: give each call inputs of its own, with setup= "
                "in place of args and kwargs"
            )

    def _present(self) -> list[int]:
        return [tensor._version for tensor in self._tensors if not tensor.is_inference()]
