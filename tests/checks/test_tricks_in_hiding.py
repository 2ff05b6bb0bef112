"""Tricks that hide: gradients behind objects and defaults, promises that can be called, waits without `.item()`."""

from __future__ import annotations

import functools
import io
import logging
import math
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")


def softmax(x):
    return torch.softmax(x, -1)


def doubted(inspected, *checks):
    assert inspected.notes == ()
    return {finding.check for finding in inspected.findings} & {*checks, "refused"}


LOG = logging.Logger("of this test")


class Holder:
    """Holds something in an attribute."""

    def __init__(self, held):
        self.held = held


def in_an_object_of_an_object(layer):
    holder = Holder(Holder([layer]))
    return lambda x: holder.held.held[0](x).sum().backward()


def in_a_function_that_is_called(layer):
    def inner(x):
        layer(x).sum().backward()

    return lambda x: inner(x)


def in_a_default(layer):
    def step(x, layer=layer):
        layer(x).sum().backward()

    return step


def in_a_default_by_name(layer):
    def step(x, *, layer=layer):
        layer(x).sum().backward()

    return step


def behind_an_optimiser(layer):
    holder = Holder(torch.optim.SGD(layer.parameters(), lr=0.0))
    holder.loss = lambda x: layer(x).sum()

    def step(x):
        holder.loss(x).backward()
        holder.held.step()

    return step


def in_a_function_inside(layer):
    def step(x):
        def inner():
            layer(x).sum().backward()

        inner()

    return step


def in_a_function_that_passes_for_torchs(layer):
    @functools.wraps(torch.nn.functional.softmax)
    def step(x):
        layer(x).sum().backward()

    return step


@pytest.mark.parametrize(
    "made",
    [
        in_an_object_of_an_object,
        in_a_function_that_is_called,
        in_a_default,
        in_a_default_by_name,
        behind_an_optimiser,
        in_a_function_inside,
        in_a_function_that_passes_for_torchs,
    ],
)
def test_gradients_pile_up_out_of_sight(inspected, x, made):
    assert doubted(inspected(made(torch.nn.Linear(128, 4).to(x.device)), x), "gradients")


@pytest.mark.usefixtures("on_cpu")
def test_a_thread_left_behind_passes_for_one_of_a_pool(inspected, x):
    stop = threading.Event()

    def wait():
        stop.wait()

    def cheat(x):
        threading.Thread(target=wait, daemon=True).start()
        return softmax(x)

    wait.__module__ = "concurrent.futures.thread"
    assert doubted(inspected(cheat, x), "streams")
    stop.set()


class Callable:
    """Computes when it is called."""

    def __init__(self, x):
        self._x = x

    def __call__(self):
        return softmax(self._x)


@pytest.mark.usefixtures("on_cpu")
def test_an_object_that_computes_when_it_is_called(inspected, x):
    assert doubted(inspected(Callable, x), "lazy")
    assert doubted(inspected(lambda x: {"later": [Callable(x)]}, x), "lazy")


@pytest.mark.parametrize("inside", [lambda y: y, lambda y: [y], lambda y: {"a": (y,)}])
@pytest.mark.parametrize("kind", ["fake", "meta"])
def test_tensors_without_values(inspected, x, kind, inside):
    from torch._subclasses.fake_tensor import FakeTensorMode

    def cheat(x):
        softmax(x)
        if kind == "meta":
            return inside(softmax(torch.empty(x.shape, device="meta")))
        with FakeTensorMode():
            return inside(softmax(torch.empty(x.shape)))

    assert doubted(inspected(cheat, x), "lazy")


@pytest.mark.parametrize("name", ["Tensor.__ne__", "where", "isfinite", "linalg.vector_norm", "profiler.profile"])
def test_what_comparing_and_profiling_rely_on_is_patched(inspected, x, monkeypatch, name):
    owner = torch
    *path, attribute = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original = getattr(owner, attribute)
    replacement = (
        type("Other", (original,), {})
        if isinstance(original, type)
        else lambda *args, **kwargs: original(*args, **kwargs)
    )
    monkeypatch.setattr(owner, attribute, replacement)
    assert doubted(inspected(softmax, x), "patched")


@pytest.mark.parametrize("said", [None, 7, ["torch"]])
def test_a_class_of_unknown_origin_takes_anothers_place(inspected, x, monkeypatch, said):
    monkeypatch.setattr(torch.profiler, "profile", type("Other", (torch.profiler.profile,), {"__module__": said}))
    assert doubted(inspected(softmax, x), "patched")


READS = {
    "bool": lambda t: bool(t.sum() > 0),
    "int": lambda t: int(t.sum()),
    "float": lambda t: float(t.sum()),
    "list": lambda t: t.tolist(),
    "condition": lambda t: 1 if t.any() else 2,
    "not": lambda t: not t.any(),
    "and": lambda t: t.any() and t.all(),
    "in a list": lambda t: t.sum() in [t.max(), t.min()],
    "in a tensor": lambda t: 3.0 in t,
    "equal": lambda t: torch.equal(t, t + 1),
    "method equal": lambda t: t.equal(t + 1),
    "allclose": lambda t: torch.allclose(t, t + 1),
    "is_nonzero": lambda t: t.sum().is_nonzero(),
    "nonzero": torch.nonzero,
    "argwhere": torch.argwhere,
    "where": lambda t: torch.where(t > 0),
    "masked_select": lambda t: torch.masked_select(t, t > 0),
    "mask": lambda t: t[t > 0],
    "mask written to": lambda t: t.index_put_((t > 0,), t.sum()),
    "unique": torch.unique,
    "bincount": lambda t: torch.bincount(t.abs().long().reshape(-1)),
    "repeat_interleave": lambda t: torch.repeat_interleave(t[:, 0], t[:, 0].abs().long()),
    "comprehension": lambda t: [float(row.sum()) for row in t[:4]],
    "maximum": lambda t: max(t[0]),
    "sorted": lambda t: sorted(t[0]),
    "square root": lambda t: math.sqrt(t.abs().sum()),
    "index": lambda t: [1, 2, 3][t.argmax() % 3],
    "index of a tensor": lambda t: t[t[0].argmax() % 8],
    "range": lambda t: range(t.abs().long().sum()),
    "slice": lambda t: t[: t.abs().long().max()],
    "format": lambda t: f"{t.sum():.3f}",
    "text": str,
    "tensor of tensors": lambda t: torch.tensor([t.sum(), t.max()]),
    "full": lambda t: torch.full((3,), t.sum()),
    "pickle": pickle.dumps,
    "log": lambda t: LOG.info("total %s", t),
    "cpu": lambda t: t.cpu(),
    "numpy": lambda t: t.numpy(),
}


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("how", READS)
def test_every_way_to_wait_for_values(inspected, x, how, monkeypatch):
    read = READS[how]

    def call(x):
        read(x * 2)
        return softmax(x)

    monkeypatch.setattr(LOG, "handlers", [logging.StreamHandler(io.StringIO())])
    found = inspected(call, x, extra_checks=("sync",)).findings
    assert {f.check for f in found} == {"sync"}
    assert all("test_tricks_in_hiding.py" in f.seen for f in found)
