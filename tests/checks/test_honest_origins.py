"""Honest callables that do not say where they are from: neither checks nor the search for held tensors stumble."""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping

import pytest

from pytest_gpuperf.measure.held_tensors import held_tensor

torch = pytest.importorskip("torch")

SAID = {"nothing": None, "a number": 7, "a list": ["torch"], "a class": dict, "no word": "", "torch": "torch.nn"}


def from_nowhere(said):
    """Return a function whose globals have no name either, as those of generated code."""
    made = {"__name__": said, "torch": torch}
    exec("def function(x):\n    return torch.softmax(x, -1)", made)
    return made["function"]


def function(said, x):
    def called(x):
        return torch.softmax(x, -1)

    called.__module__ = said
    return called


def function_of_generated_code(said, x):
    return from_nowhere(said)


def function_behind_another(said, x):
    inner = function(said, x)
    return functools.wraps(inner)(lambda x: inner(x) + 1.0)


def partial(said, x):
    return functools.partial(function(said, x))


def callable_object(said, x):
    made = type("Made", (), {"__module__": said, "__call__": lambda self, x: x * self.scale})()
    made.scale = torch.full((128,), 2.0, device=x.device)
    made.__name__ = said
    return made


def bound_method(said, x):
    return callable_object(said, x).__call__


def module(said, x):
    kind = type("Layer", (torch.nn.Linear,), {"__module__": said})
    return kind(128, 8).to(x.device)


def tensor_of_a_class(said, x):
    kind = type("Kind", (torch.Tensor,), {"__module__": said})
    return lambda x: (x * 2).as_subclass(kind)


def object_beside_the_result(said, x):
    kind = type("Report", (), {"__module__": said, "__call__": lambda self: None})
    return lambda x: (torch.softmax(x, -1), kind(), kind, function(said, x))


KINDS = [
    function,
    function_of_generated_code,
    function_behind_another,
    partial,
    callable_object,
    bound_method,
    module,
    tensor_of_a_class,
    object_beside_the_result,
]


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("kind", KINDS)
def test_callables_of_any_origin(silent, x, kind, said):
    fn = kind(SAID[said], x)
    silent(fn, x)
    held_tensor(fn, torch, x.device.type)


@pytest.mark.parametrize("said", SAID)
def test_threads_of_any_origin(inspected, x, said):
    def joined(x):
        output = torch.empty_like(x)

        def write():
            output.copy_(torch.softmax(x, -1))

        write.__module__ = SAID[said]
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        return output

    found = inspected(joined, x, allow=("work",))  # what starting a thread takes is up to the machine
    assert found.findings == ()
    assert found.notes == ()


@pytest.mark.parametrize("said", ["nothing", "a number", "a list", "a class", "no word"])
@pytest.mark.parametrize("kind", [callable_object, bound_method])
def test_tensors_of_objects_of_unknown_origin_are_found(x, kind, said):
    assert held_tensor(kind(SAID[said], x), torch, x.device.type) == "attribute scale"


@pytest.mark.parametrize("said", SAID)
def test_tensors_of_functions_that_say_anything_are_found(x, said):
    def closing_over():
        return x

    closing_over.__module__ = SAID[said]
    assert held_tensor(closing_over, torch, x.device.type) == "closure variable x"


class Refusing:
    """Answers no question about its attributes."""

    def __call__(self, x):
        return torch.softmax(x, -1)

    def __getattr__(self, name):
        raise RuntimeError(name)


class Loading(Mapping):
    """Loads a value when it is asked for, and counts how often it is."""

    loaded = 0

    def __getitem__(self, key):
        self.loaded += 1
        return torch.full((128,), 2.0)

    def __iter__(self):
        return iter(("weight",))

    def __len__(self):
        return 1


def test_objects_that_refuse_to_be_asked(silent, x):
    silent(Refusing(), x)
    refusing = Refusing()
    silent(lambda x: refusing(x) * 2, x)


def test_mappings_that_load_what_they_hold_are_left_to_the_callable(silent, x):
    files = Loading()
    silent(lambda x: x * 2 + len(files), x)
    assert files.loaded == 0
