"""Honest callables whose calls take turns, remember, or give equal outputs: none follows its inputs late."""

from __future__ import annotations

import itertools
import random
from collections import deque

import pytest

torch = pytest.importorskip("torch")


def softmax(x):
    return torch.softmax(x, -1)


@pytest.fixture
def not_late(inspected):
    """Return what asserts that a callable's results are not said to be looked up."""

    def check(fn, *args, **stated):
        found = inspected(fn, *args, **stated)
        assert found.notes == ()
        assert [finding.seen for finding in found.findings if finding.check == "caching"] == []

    return check


@pytest.mark.parametrize("count", [2, 3, 4])
def test_buffers_that_take_turns(silent, x, count):
    buffers = itertools.cycle([torch.empty_like(x) for _ in range(count)])
    silent(lambda x: torch.exp(x, out=next(buffers)), x)
    silent(lambda x: next(buffers).copy_(softmax(x)), x)


@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("calls_each", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [2, 3])
def test_tables_that_take_turns_whatever_the_inputs(not_late, x, count, calls_each, start):
    tables = [torch.rand(64, device=x.device) for _ in range(count)]
    turns = itertools.count(start)
    not_late(lambda x: tables[next(turns) // calls_each % count].cos(), x)


@pytest.mark.parametrize("change", [softmax, torch.sigmoid, lambda d: (d + 0.5).sum()])
def test_differences_to_the_call_before(not_late, x, change):
    def changed(x):
        before, changed.seen = changed.seen, x.clone()
        return change(x - before)

    changed.seen = x.clone()
    not_late(changed, x)


@pytest.mark.parametrize("with_this", [False, True])
@pytest.mark.parametrize("length", [2, 4, 16])
def test_a_scale_from_the_largest_of_the_last_calls(silent, x, length, with_this):
    history = deque([x.abs().amax()] * length, maxlen=length)

    def scale(x):
        before = torch.stack([*history]).amax() / 448.0
        history.append(x.abs().amax())
        return torch.stack([*history]).amax() / 448.0 if with_this else before

    silent(scale, x)


@pytest.mark.parametrize(
    "constant",
    [
        lambda x: torch.full((), 0.3, device=x.device),
        lambda x: torch.full_like(x, 0.3),
        lambda x: torch.zeros_like(x).cos() * 0.7,
        lambda x: (x.sum() > 1e9).float(),
        lambda x: torch.full((9,), float("nan"), device=x.device) * x[0, 0],
    ],
)
def test_constants(silent, x, constant):
    silent(constant, x)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("elements", [1, 2])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.8])
def test_few_flags_that_are_random(silent, x, share, elements, seed):
    generator = torch.Generator(x.device).manual_seed(seed)
    silent(lambda x: torch.bernoulli(torch.full((elements,), share, device=x.device), generator=generator), x)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("values", [(0.3, -0.3), (0.25, 0.5, 0.75)])
def test_a_number_that_is_random(not_late, x, values, seed):
    generator = torch.Generator(x.device).manual_seed(seed)
    drawn_from = torch.tensor(values, device=x.device)
    not_late(lambda x: drawn_from[torch.randint(len(values), (1,), generator=generator, device=x.device)], x)


@pytest.mark.parametrize("seed", range(10))
def test_one_of_two_tables_by_chance(not_late, x, seed):
    tables, chance = torch.rand(2, 64, device=x.device), random.Random(seed)
    not_late(lambda x: tables[chance.randrange(2)].cos(), x)


@pytest.mark.parametrize("size", [(), (64, 128)])
def test_dropout_of_few_and_many(silent, not_late, x, size):
    not_late(lambda x: torch.nn.functional.dropout(x.mean().expand(size), 0.5), x)
    silent(lambda x: torch.bernoulli(torch.full(size, 0.5, device=x.device)) + 0.0 * x.sum(), x)


def test_sums_in_an_order_that_is_not_the_same(silent, x):
    silent(lambda x: x[:, torch.rand(128, device=x.device).argsort()].sum(-1), x)
    silent(lambda x: x[torch.rand(64, device=x.device).argsort()].sum(), x)


def test_a_graph_with_an_input_of_its_own(silent, x):
    static, output = torch.empty_like(x), torch.empty_like(x)

    def replayed(x):
        static.copy_(x)
        return torch.exp(static, out=output)

    silent(replayed, x)


def test_a_graph_whose_input_is_the_benchmarks(silent, x):
    def replayed(given):
        if given is not x:
            x.copy_(given)
        return softmax(x)

    silent(replayed, x, allow=("mutation",))


def test_a_model_in_training(silent, x):
    model = torch.nn.Sequential(torch.nn.Linear(128, 32), torch.nn.BatchNorm1d(32), torch.nn.Dropout(0.1)).to(x.device)
    silent(model, x)
    silent(torch.nn.BatchNorm1d(128, momentum=None).to(x.device), x)


@pytest.mark.parametrize("every", [2, 3, 5])
def test_work_beside_the_result_on_every_nth_call(not_late, x, every):
    state = {"calls": 0, "mean": x.mean()}

    def refreshed(x):
        state["calls"] += 1
        if state["calls"] % every == 0:
            state["mean"] = x.mean()
        return x - state["mean"]

    not_late(refreshed, x)
