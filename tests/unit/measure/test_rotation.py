"""Copies of a call's inputs, with real tensors on the CPU in the place of a device's."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from pytest_gpuperf.measure.batch import Target  # noqa: E402
from pytest_gpuperf.measure.held_tensors import MOST_ITEMS, held_tensor  # noqa: E402
from pytest_gpuperf.measure.rotation import ALIGNMENT_BYTES, NotRotatableError, Rotation  # noqa: E402

WEIGHT = torch.ones(3)


def rotation(fn, *args, **kwargs):
    return Rotation(Target(functools.partial(fn, *args, **kwargs)), torch, "cpu")


def given(*args, **kwargs):
    return args, kwargs


def copy_of(*args, **kwargs):
    return rotation(given, *args, **kwargs).call()()


def test_each_call_has_equal_inputs_in_memory_of_its_own():
    x = torch.randn(4, 5)
    first, second = (rotation(given, x, 2, scale="half").call()() for _ in range(2))
    assert torch.equal(first[0][0], x)
    assert first[0][1] == 2
    assert first[1] == {"scale": "half"}
    assert len({x.data_ptr(), first[0][0].data_ptr(), second[0][0].data_ptr()}) == 3


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[2:, 1::3],
        lambda x: x[1].expand(7, 5),
        lambda x: x[:0],
        lambda x: x.view(torch.int32)[1:],
        lambda x: x.double().to(torch.complex128)[3:],
    ],
    ids=["transposed", "sliced", "expanded", "empty", "integers", "complex"],
)
def test_layout_and_place_within_a_block_are_kept(view):
    x = view(torch.randn(6, 5))
    ((made,), _) = copy_of(x)
    assert torch.equal(made, x)
    assert (made.shape, made.stride(), made.dtype) == (x.shape, x.stride(), x.dtype)
    assert (made.storage_offset() * x.element_size()) % ALIGNMENT_BYTES == (
        x.storage_offset() * x.element_size()
    ) % ALIGNMENT_BYTES


def test_what_shares_memory_shares_it_in_the_copy():
    whole = torch.arange(12.0)
    ((q, k, again), _) = copy_of(whole[:6], whole[4:], whole[:6])
    assert torch.equal(q, whole[:6])
    assert torch.equal(k, whole[4:])
    q[4] = 100.0
    assert k[0] == 100.0
    assert again[4] == 100.0
    assert whole[4] == 4.0


def test_one_object_given_twice_is_one_object():
    x = torch.randn(3)
    (a, b), kwargs = copy_of(x, [x], y={"x": x})
    assert a is b[0] is kwargs["y"]["x"]


def test_only_the_part_that_is_used_is_copied():
    assert rotation(given, torch.zeros(10_000)[100:110]).size_bytes == 40


def test_gradients_are_required_where_they_were():
    parameter, plain = torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)
    ((one, two, product, three), _) = copy_of(parameter, plain, plain * 2, torch.ones(2))
    assert isinstance(one, torch.nn.Parameter)
    assert [one.requires_grad, two.requires_grad, product.requires_grad, three.requires_grad] == [True] * 3 + [False]
    assert product.is_leaf


def closing_over():
    inner = torch.ones(3)
    return lambda x: x + inner


@dataclass
class Config:
    table: torch.Tensor


@dataclass(slots=True)
class Slotted:
    table: torch.Tensor


@functools.lru_cache
def cached(x):
    return x + WEIGHT


class Layer:
    def __init__(self):
        self.weight = WEIGHT

    def method(self, x):
        return x + self.weight


def with_default(x, table=WEIGHT):
    return x


def nested(x):
    return (lambda y: y + WEIGHT)(x)


def indirect(x):
    return nested(x)


@pytest.mark.parametrize(
    ("fn", "what"),
    [
        (closing_over(), "closure variable inner"),
        (lambda x: x + WEIGHT, "global WEIGHT"),
        (with_default, "a default argument"),
        (indirect, "global WEIGHT"),
        (torch.nn.Linear(2, 2), "parameter"),
        (torch.nn.Linear(2, 2).forward, "parameter"),
        (functools.partial(torch.add, other=WEIGHT), None),
        (functools.wraps(torch.add)(closing_over()), "closure variable inner"),
        ([1, {"a": (WEIGHT,)}], "a tensor"),
        (Config(WEIGHT), "attribute table"),
        (Slotted(WEIGHT), "attribute table"),
        (cached, "global WEIGHT"),
        (Layer().method, "attribute weight"),
        (WEIGHT.clone, "the object whose method it is"),
    ],
)
def test_tensors_that_the_function_holds_are_found(fn, what):
    found = held_tensor(fn, torch, "cpu")
    assert found is not None
    assert what is None or what in found
    assert held_tensor(fn, torch, "cuda") is None


@pytest.mark.parametrize(
    "fn", [torch.add, torch.nn.functional.softmax, len, given, lambda x: torch.softmax(x, -1), torch.nn.ReLU(), 7, "x"]
)
def test_functions_without_tensors_hold_none(fn):
    assert held_tensor(fn, torch, "cpu") is None


def test_what_is_too_large_to_look_through_counts_as_holding_one():
    many = [[number] for number in range(MOST_ITEMS + 1)]
    assert "more objects" in held_tensor(lambda: many, torch, "cpu")
    assert held_tensor(lambda: many[:10], torch, "cuda") is not None


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (Target(lambda: WEIGHT * 2), "global WEIGHT"),
        (Target(functools.partial(closing_over(), torch.ones(2))), "closure variable inner"),
        (Target(functools.partial(given, 3)), "no tensor argument"),
        (Target(functools.partial(given, torch.ones(2), Config(WEIGHT))), "Config"),
        (Target(functools.partial(given, torch.ones(2).to_sparse())), "cannot be copied"),
        (Target(functools.partial(given, torch.ones(2, dtype=torch.complex64).conj())), "cannot be copied"),
        (Target(functools.partial(given, [[[[[[[torch.ones(2)]]]]]]])), "holds a tensor"),
        (Target(given, lambda: ((1,), {})), "setup"),
    ],
)
def test_what_cannot_be_copied_is_refused_with_the_culprit(target, why):
    with pytest.raises(NotRotatableError, match=why):
        Rotation(target, torch, "cpu")


def test_tensors_elsewhere_are_left_as_they_are():
    on_host = torch.ones(2)
    made = Rotation(
        Target(functools.partial(given, torch.ones(2, device="meta"), on_host)), FakeKinds(), "cpu"
    ).call()()
    assert made[0][0].device.type == "meta"


class FakeKinds:
    """torch itself; there is no second device on a CPU but `meta`, whose tensors have no memory."""

    def __getattr__(self, name):
        return getattr(torch, name)
