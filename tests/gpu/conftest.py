"""What measures on the GPU in these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.backends.base import Backend


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    """The first CUDA device, for one file of tests."""
    made = backend_for("cuda")
    yield made
    made.close()
