from __future__ import annotations

import numpy
import pytest

from pytest_gpuperf.settings import size


@pytest.mark.parametrize(
    ("raw", "count_bytes"),
    [
        (1, 1),
        (1.5e9, 1_500_000_000),
        ("4096", 4096),
        ("1e6", 1_000_000),
        ("1.5 GiB", 3 << 29),
        ("1.5GiB", 3 << 29),
        ("600 MB", 600_000_000),
        ("64 KiB", 65_536),
        ("64 kB", 64_000),
        ("2T", 2_000_000_000_000),
        (" 10 B ", 10),
        (numpy.int64(4096), 4096),
        (numpy.float32(1e9), 1_000_000_000),
    ],
)
def test_sizes(raw, count_bytes):
    assert size(raw) == count_bytes


@pytest.mark.parametrize(
    "raw",
    [0, -5, True, None, "", "GiB", "1.5 gibi", "-1 MB", "1..5 MB", "1e999", float("nan"), [1], 10**400, 10**5000],
    ids=lambda raw: type(raw).__name__,
)
def test_what_is_no_size(raw):
    with pytest.raises(ValueError, match="number of bytes"):
        size(raw)
