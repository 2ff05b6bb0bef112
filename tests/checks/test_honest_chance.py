"""Honest callables that take a branch by chance, or now and then."""

from __future__ import annotations

import itertools
import random

import pytest

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn


def softmax(x):
    return torch.softmax(x, -1)


def draws(kind, seed):
    """Return a source of numbers from zero to one of each kind."""
    if kind == "torch":
        return lambda: float(torch.rand(()))
    if kind == "a generator of torch":
        generator = torch.Generator().manual_seed(seed)
        return lambda: float(torch.rand((), generator=generator))
    if kind == "numpy":
        numpy = pytest.importorskip("numpy")
        return numpy.random.default_rng(seed).random
    return random.random if kind == "python" else random.Random(seed).random


def augmented(draw, share):
    return lambda x: x.flip(-1) if draw() < share else x * 1.0


def deeper(draw, share):
    return lambda x: x * 0.5 + (softmax(x) if draw() < share else 0.0)


def of_many_layers(draw, share):
    layers = [nn.Tanh() for _ in range(4)]

    def through(x):
        for layer in layers:
            if draw() < share:
                x = x + layer(x)
        return x

    return through


def of_trained_layers(draw, share):
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(4))

    def through(x):
        for layer in layers.to(x.device):
            if draw() < share:
                x = x + layer(x)
        return x

    return through


def logged_now_and_then(draw, share):
    return lambda x: (softmax(x), x.square().sum() if draw() < share else None)


def of_any_length(draw, share):
    return lambda x: softmax(x[: 16 if draw() < share else 64])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.03, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["torch", "a generator of torch", "numpy", "python", "a generator of python"])
@pytest.mark.parametrize(
    "make", [augmented, deeper, of_many_layers, of_trained_layers, logged_now_and_then, of_any_length]
)
def test_a_branch_that_is_taken_by_chance(silent, x, make, kind, share, seed):
    random.seed(seed)
    torch.manual_seed(seed)
    silent(make(draws(kind, seed), share), x)


@pytest.mark.parametrize("start", [0, 1, 5, 9])
@pytest.mark.parametrize("every", [2, 5, 10, 33])
def test_a_scale_that_is_worked_out_on_every_nth_call(silent, x, every, start):
    turns = itertools.count(start)

    def scaled(x):
        y = softmax(x)
        if next(turns) % every == 0:
            scaled.norm = y.norm()
        return y / scaled.norm

    scaled.norm = torch.ones((), device=x.device)
    silent(scaled, x)
