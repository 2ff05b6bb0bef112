"""The order of calls that brings to light what a callable hands on."""

from __future__ import annotations

import pytest

from pytest_gpuperf.checks.evidence import IN_MIXED_ORDER


@pytest.mark.parametrize("lag", range(1, 11))
def test_whatever_the_lag_equal_calls_come_after_different_ones(lag):
    pairs = set(zip(IN_MIXED_ORDER[lag:], IN_MIXED_ORDER[:-lag], strict=True))
    assert any({(now, True), (now, False)} <= pairs for now in (True, False))
