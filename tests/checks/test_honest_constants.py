"""Honest callables whose output hardly depends on the values of their inputs, or stays in the same memory."""

from __future__ import annotations

import itertools
import threading

import pytest

torch = pytest.importorskip("torch")


def indices(x):
    return torch.arange(x.shape[-1], dtype=x.dtype, device=x.device)


def grid(x):
    rows, columns = (torch.linspace(0, 1, size, device=x.device) for size in x.shape)
    return torch.meshgrid(rows, columns, indexing="ij")


def rotations(x):
    """Table of a rotary embedding: `x` is asked for its length only."""
    angles = torch.outer(torch.arange(x.shape[0], device=x.device), 1e4 ** -torch.linspace(0, 1, 64, device=x.device))
    return angles.cos(), angles.sin()


def not_a_number(x):
    return torch.log(-x.abs())


def flags_times_a_table(x):
    return (x > -1e6).float() * torch.arange(128.0, device=x.device)


def saturated(x):
    return torch.sigmoid(x.abs() * 1e3 + 1e3) * torch.arange(128.0, device=x.device)


def dominated(x):
    return torch.softmax(torch.eye(64, device=x.device) * (1e5 + x.abs().max()), -1) @ torch.linspace(
        0, 1, 64, device=x.device
    )


@pytest.mark.parametrize(
    "fn",
    [
        indices,
        grid,
        rotations,
        not_a_number,
        flags_times_a_table,
        saturated,
        dominated,
    ],
)
def test_values_that_do_not_matter(silent, x, fn):
    silent(fn, x)


@pytest.mark.usefixtures("on_cpu")
def test_noise_of_another_library(silent, x):
    numpy = pytest.importorskip("numpy")
    silent(lambda x: x * 0 + torch.from_numpy(numpy.random.default_rng(0).standard_normal((64, 128))), x)


def test_layers_that_start_at_zero(silent, x):
    layer = torch.nn.Linear(128, 128).to(x.device)
    torch.nn.init.zeros_(layer.weight)
    silent(layer, x)
    low = torch.randn(128, 4, device=x.device)
    silent(lambda x, low, zero: (x @ low) @ zero, x, low, torch.zeros(4, 32, device=x.device))
    bias = torch.randn(64, 128, device=x.device)
    silent(lambda x, gate: bias + gate * x.exp(), x, torch.zeros(1, device=x.device))


def test_a_table_that_is_computed_from_a_kept_one(silent, x):
    frequencies = torch.randn(128, device=x.device)
    silent(lambda x: (frequencies * x.shape[0]).cos(), x)


@pytest.mark.parametrize("fn", ["relu_", "abs_", "round_", "sort", "clamp_", "maximum", "minimum"])
def test_memory_of_their_own_that_is_written_in_place(silent, x, fn):
    kept = x.clone()
    silent(
        {
            "relu_": lambda x: kept.relu_(),
            "abs_": lambda x: kept.abs_(),
            "round_": lambda x: kept.round_(),
            "sort": lambda x: kept.copy_(kept.sort(-1).values),
            "clamp_": lambda x: kept.clamp_(-9.0, 9.0),
            "maximum": lambda x: torch.maximum(kept, x, out=kept),
            "minimum": lambda x: torch.minimum(kept, x, out=kept),
        }[fn],
        x,
    )


@pytest.mark.parametrize("held", ["in place", "anew"])
def test_a_state_that_comes_to_rest(silent, x, held):
    state = {"average": torch.zeros_like(x)}

    def smoothed(x):
        if held == "in place":
            return state["average"].mul_(0.5).add_(x, alpha=0.5)
        state["average"] = state["average"] * 0.5 + x * 0.5
        return state["average"]

    silent(smoothed, x)


def test_a_model_that_is_trained_until_nothing_changes(silent, x):
    torch.manual_seed(0)
    layer = torch.nn.Linear(128, 16).to(x.device)
    optimiser = torch.optim.SGD(layer.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 2, 0.1)

    def step(x):
        optimiser.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimiser.step()
        schedule.step()
        return loss.detach()

    silent(step, x)


def test_a_rate_that_comes_to_rest(silent, x):
    def annealed(x):
        annealed.temperature = max(0.5, annealed.temperature * 0.7)
        return torch.softmax(x / annealed.temperature, -1)

    annealed.temperature = 100.0
    silent(annealed, x)


def test_copies_of_what_a_function_closes_over(silent, x):
    silent(x.clone)
    silent(lambda: [row.clone() for row in x])
    silent(lambda: torch.cat([x, x]))
    silent(lambda count: x.repeat(count, 1), 3)
    silent(lambda rows: x[rows], torch.arange(64, device=x.device))


def test_memory_of_a_thread_or_of_turns(silent, x):
    local = threading.local()

    def filled(x):
        if not hasattr(local, "workspace"):
            local.workspace = torch.empty_like(x)
        return torch.exp(x, out=local.workspace)

    silent(filled, x)
    turns = itertools.cycle([torch.empty_like(x) for _ in range(3)])
    silent(lambda x: torch.exp(x, out=next(turns)), x)
    parts = itertools.cycle(x.chunk(8))
    silent(lambda: torch.softmax(next(parts), -1))


def test_what_was_kept_beside_the_result(silent, x):
    mask = torch.ones(64, 128, device=x.device).tril()
    silent(lambda x: (x * mask, mask), x)


def test_weights_that_are_prepared_with_room_for_one(silent, x):
    packed = {}

    def multiplied(x, w):
        key = id(w), w._version
        if key not in packed:
            packed.clear()
            packed[key] = w, torch.softmax(w.t().contiguous(), -1)
        return x @ packed[key][1]

    silent(multiplied, x, torch.randn(128, 128, device=x.device))


def test_what_was_kept_is_what_it_was(silent, x):
    kept = torch.rand(64, 128, device=x.device)
    before = kept.clone()
    silent(lambda x: (x + kept, kept), x)
    assert torch.equal(kept, before)
