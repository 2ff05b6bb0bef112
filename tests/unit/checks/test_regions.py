"""Bytes that tensors take, against a count of them one by one."""

from __future__ import annotations

import itertools
import random

import pytest

from pytest_gpuperf.checks.regions import MOST_RUNS, meet, merged, runs_of, without

torch = pytest.importorskip("torch")

BASE = torch.zeros(6, 8, 4)
VIEWS = {
    "all": BASE,
    "transposed": BASE.transpose(0, 2),
    "row": BASE[3],
    "column": BASE[:, 2],
    "every other": BASE[1::2, ::3, 1],
    "element": BASE[1, 2, 3],
    "expanded": BASE[:, :1, :1].expand(6, 5, 3),
    "overlapping": BASE.view(-1).unfold(0, 8, 3),
    "as bytes": BASE.view(torch.uint8)[2, 3:5],
    "diagonal": BASE[:, :, 0].diagonal(),
}


def bytes_of(tensor):
    size = tensor.element_size()
    places = torch.arange(BASE.numel() * BASE.element_size() // size)
    taken = places.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).reshape(-1).tolist()
    return {place * size + byte for place in taken for byte in range(size)}


def listed(runs):
    return {byte for start, stop in runs for byte in range(start, stop)}


@pytest.mark.parametrize("name", VIEWS)
def test_every_view(name):
    runs = runs_of(VIEWS[name])
    assert listed(runs) == bytes_of(VIEWS[name])
    assert all(before[1] < after[0] for before, after in itertools.pairwise(runs))


def test_what_is_too_scattered():
    assert runs_of(torch.zeros(2 * MOST_RUNS + 2)[::2]) is None
    assert len(runs_of(torch.zeros(2 * MOST_RUNS)[::2])) == MOST_RUNS


@pytest.mark.parametrize("seed", range(50))
def test_any_runs(seed):
    chance = random.Random(seed)

    def some():
        starts = [chance.randrange(60) for _ in range(chance.randrange(8))]
        return merged((start, start + chance.randrange(1, 12)) for start in starts)

    one, other = some(), some()
    assert listed(without(one, other)) == listed(one) - listed(other)
    assert meet(one, other) == bool(listed(one) & listed(other))
    assert listed(merged((*one, *other))) == listed(one) | listed(other)
