"""Callables that torch.compile has compiled: the checks leave them compiled, and have nothing to say of them."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")


class Compiler:
    """A back end that counts how often something runs compiled, and how often something is compiled."""

    def __init__(self):
        self.runs = self.graphs = 0

    def __call__(self, graph, inputs):
        self.graphs += 1

        @functools.wraps(graph.forward)
        def run(*args):
            self.runs += 1
            return graph.forward(*args)

        return run


@pytest.fixture
def compiler():
    torch._dynamo.reset()
    yield Compiler()
    torch._dynamo.reset()


def scaled_softmax(x):
    return torch.softmax(x * 2.0, -1) + 1.0


def plain(compiler):
    return torch.compile(scaled_softmax, backend=compiler)


def whole(compiler):
    return torch.compile(scaled_softmax, backend=compiler, fullgraph=True)


def for_any_size(compiler):
    return torch.compile(scaled_softmax, backend=compiler, dynamic=True)


def module(compiler):
    layers = torch.nn.Sequential(torch.nn.Softmax(-1), torch.nn.GELU())
    return torch.compile(layers, backend=compiler, fullgraph=True)


def called_by_another(compiler):
    inner = torch.compile(scaled_softmax, backend=compiler)
    return lambda x: inner(x) * 3.0


def with_a_break(compiler):
    def broken(x):
        y = x * 2.0
        torch._dynamo.graph_break()
        return torch.softmax(y, -1)

    return torch.compile(broken, backend=compiler)


KINDS = [plain, whole, for_any_size, module, called_by_another, with_a_break]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_compiled_is_left_alone_and_stays_compiled(silent, x, compiler, kind):
    fn = kind(compiler)
    fn(x)
    graphs = compiler.graphs
    silent(fn, x)
    runs = compiler.runs
    fn(x)
    assert compiler.runs == runs + graphs  # one each, none of them given up
    assert compiler.graphs == graphs


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_timed_runs_compiled(inspected, x, compiler, kind):
    fn = kind(compiler)
    fn(x)
    graphs, runs, calls = compiler.graphs, compiler.runs, 0

    def counted(x):
        nonlocal calls
        calls += 1
        return fn(x)

    inspected(counted, x)
    watched = 30  # more than the checks have reason to make under a mode
    assert compiler.runs - runs > (calls - watched) * graphs > 0


def test_what_is_compiled_can_be_compiled_for_other_sizes_afterwards(silent, x, compiler):
    fn = plain(compiler)
    silent(fn, x)
    graphs = compiler.graphs
    fn(x[:32])
    assert compiler.graphs == graphs + 1
