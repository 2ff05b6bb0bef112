"""Honest callables that write to arguments, keep them, or return tensors of a rarer kind."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

OUTPUTS = {
    "doubled": lambda x, out: torch.mul(x, 2, out=out),
    "copied": lambda x, out: out.copy_(x),
    "reversed": lambda x, out: torch.neg(x.flip(0), out=out),
    "squared": lambda x, out: torch.square(x, out=out),
    "of unit length": lambda x, out: torch.div(x, x.norm(dim=-1, keepdim=True), out=out),
    "in steps": lambda x, out: out.zero_().add_(x).mul_(2),
    "row by row": lambda x, out: [torch.mul(row, 2, out=to) for row, to in zip(x, out, strict=True)],
    "in part": lambda x, out: out[:8].copy_(x[:8]),
    "scattered": lambda x, out: out.index_copy_(0, torch.arange(63, -1, -1, device=x.device), x),
}


@pytest.mark.parametrize("start", [torch.empty_like, torch.zeros_like, torch.ones_like, torch.clone])
@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize("how", OUTPUTS)
def test_an_argument_for_the_output(silent, x, how, returned, start):
    write = OUTPUTS[how]

    def kernel(x, to):
        write(x, to)
        return to if returned else None

    silent(kernel, x, start(x))


@pytest.mark.parametrize("start", [torch.empty, torch.zeros, torch.ones])
@pytest.mark.parametrize("result", ["places", "zeros", "flags"])
def test_an_argument_for_integers(silent, x, result, start):
    def kernel(x, to):
        to.copy_({"places": x.argmax(-1), "zeros": (x > 1e9).sum(-1), "flags": (x > 0).any(-1)}[result])

    silent(kernel, x, start(64, dtype=torch.long, device=x.device))


def test_two_arguments_for_outputs(silent, x):
    def kernel(x, doubled, raised):
        torch.mul(x, 2, out=doubled)
        torch.add(x, 1, out=raised)

    silent(kernel, x, torch.empty_like(x), torch.empty_like(x))


def test_an_argument_for_the_output_with_a_reference(silent, x):
    def kernel(x, to):
        return torch.mul(x, 2, out=to)

    silent(kernel, x, torch.empty_like(x), reference=lambda x, to: x * 2)


def test_an_argument_in_another_precision(silent, x):
    silent(lambda x, to: to.copy_(x), x, torch.empty_like(x, dtype=torch.bfloat16))


def test_an_argument_for_partial_results(silent, x):
    def kernel(x, workspace):
        return torch.exp(x, out=workspace).sum(-1)

    silent(kernel, x, torch.empty_like(x))


@pytest.mark.usefixtures("on_cpu")
def test_conjugates_and_negatives_that_are_views(silent, x):
    silent(lambda z: torch.fft.fft(z).conj(), torch.complex(x, x.flip(0)))
    silent(lambda z: torch.fft.fft(z).conj().imag, torch.complex(x, x.flip(0)))


def test_a_list_that_grows(silent, x):
    def appended(x, seen):
        seen.append(x.sum())
        return torch.softmax(x, -1)

    silent(appended, x, [])


def test_integers_that_are_random(silent, x):
    silent(lambda x: torch.randint(-1, 1, (64, 128), dtype=torch.int8, device=x.device), x)
    silent(lambda x: torch.bernoulli(torch.full_like(x, 0.5)).bool(), x)


def test_integers_of_minus_one_and_zero(silent, x):
    silent(lambda x: torch.where(x > 0, 0, -1), x)
    silent(lambda x: torch.full((64, 128), -1, dtype=torch.int8, device=x.device), x)
    silent(lambda x: x > 0, x)


def test_rounding_that_grows(silent, x):
    def iterated(x):
        for _ in range(50):
            x = 3.7 * x * (1.0 - x)
        return x

    silent(iterated, x.sigmoid())
    silent(iterated, x.sigmoid(), reference=functools.partial(iterated))


def test_half_precision_that_says_so(silent, device):
    layer = torch.nn.Linear(128, 64).to(device)

    def cast(x):
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            return layer(x)

    silent(cast, torch.randn(64, 128, device=device))
    silent(lambda x: cast(x).float(), torch.randn(64, 128, device=device))


@pytest.mark.usefixtures("on_cpu")
def test_what_waits_for_nothing(silent, x):
    rows = torch.arange(0, 64, 3)
    layer = torch.nn.Linear(128, 32)
    optimiser = torch.optim.AdamW(layer.parameters())

    def step(x):
        optimiser.zero_grad(set_to_none=True)
        layer(x[rows]).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimiser.step()

    silent(step, x, extra_checks=("sync",))
    silent(lambda x: torch.where(x > 0, x, 0.0)[1:, ::2].masked_fill(x[1:, ::2] > 1, 0.0), x, extra_checks=("sync",))
    silent(lambda x: (len(x), x.shape, x.numel(), x.sum(-1)[rows.size(0)]), x, extra_checks=("sync",))


class Trainer:
    """Clears its gradients, wherever they are."""

    def __init__(self, device):
        self.layers = [torch.nn.Linear(128, 4).to(device)]
        self.optimiser = torch.optim.SGD(self.layers[0].parameters(), lr=1e-3)
        self.me = self

    def step(self, x):
        self.optimiser.zero_grad()
        self.layers[0](x).square().mean().backward()
        self.optimiser.step()


def test_objects_that_hold_themselves(silent, x):
    silent(Trainer(x.device).step, x)


def test_what_can_be_called_beside_the_work(silent, x):
    silent(lambda x: (torch.softmax(x, -1), torch.nn.Identity(), Trainer), x)


@pytest.mark.parametrize("formula", ["tanh", "sigmoid"])
def test_another_formula_than_the_references(silent, x, formula):
    """An approximation's error is no sign of a lower precision."""
    gelu = torch.nn.functional.gelu
    fn = {"tanh": lambda x: gelu(x, approximate="tanh"), "sigmoid": lambda x: x * torch.sigmoid(1.702 * x)}[formula]
    silent(fn, x, reference=gelu)


def test_a_formula_that_cancels(silent, x):
    silent(lambda x: (x * x).mean(-1) - x.mean(-1) ** 2, x + 100, reference=lambda x: x.var(-1, unbiased=False))


def test_derivatives_of_derivatives(silent, x):
    silent(lambda v: torch.func.hessian(lambda v: (v**3).sum())(v), x[0, :16])


def test_a_pool_that_starts_threads_as_it_needs_them(silent, x):
    with ThreadPoolExecutor(64) as pool:
        silent(lambda x: torch.cat(list(pool.map(lambda rows: torch.softmax(rows, -1), x.chunk(6)))), x)


@pytest.mark.usefixtures("on_cpu")
def test_work_handed_to_a_thread(silent, x):
    async def handed(x):
        return await asyncio.to_thread(torch.exp, x)

    silent(lambda x: asyncio.run(handed(x)), x)


def test_a_merge_that_writes_all_only_if_the_inputs_are_sorted(silent, x):
    first, second = (x[row].sort().values for row in range(2))

    def merged(first, second):
        places = torch.arange(128, device=first.device)
        output = torch.empty(256, device=first.device)
        output[places + torch.searchsorted(second, first)] = first
        output[places + torch.searchsorted(first, second, right=True)] = second
        return output

    silent(merged, first, second)
    silent(merged, first, second, reference=lambda first, second: torch.cat([first, second]).sort().values)
