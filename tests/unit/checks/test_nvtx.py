from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.checks.nvtx import NvtxRanges


@pytest.fixture
def log():
    return []


@pytest.fixture
def ranges(log):
    nvtx = SimpleNamespace(range_push=log.append, range_pop=lambda: log.append("pop"))
    return NvtxRanges(SimpleNamespace(cuda=SimpleNamespace(nvtx=nvtx)))


def test_a_range_is_closed_whatever_happens(ranges, log):
    with pytest.raises(RuntimeError), ranges.range("warm-up"):
        raise RuntimeError
    assert log == ["warm-up", "pop"]


def test_each_trial_has_a_range_and_its_own_output(ranges, log):
    trial = ranges.around_each(lambda a, b: a + b)
    assert (trial(1, b=2), trial(3, b=4)) == (3, 7)
    assert log == ["trial", "pop", "trial", "pop"]
