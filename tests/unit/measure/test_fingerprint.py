from __future__ import annotations

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.measure.fingerprint import LIMIT_CHARACTERS, describe_arguments


class Mode(enum.Enum):
    FAST = object()


def described(*args, **kwargs):
    return describe_arguments(args, kwargs)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (-0.5, "-0.5"),
        (float("nan"), "nan"),
        ("tanh", "'tanh'"),
        (b"ab", "b'ab'"),
        ((1, 2), "(1, 2)"),
        ([1, [2, [3, [4]]]], "[1, [2, [3, list of 1]]]"),
        ({"dim": -1}, "{'dim': -1}"),
        (Mode.FAST, "Mode.FAST"),
        (object(), "object"),
        (lambda: None, "function"),
        (1 << 4000, "int of 4001 bits"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, … of 100]"),
    ],
)
def test_plain_values(value, text):
    assert described(value) == text


def test_positional_then_named_by_name():
    assert described(1, "a", y=2, x=3) == "1, 'a', x=3, y=2"


def test_tensors_are_told_by_type_shape_strides_and_device():
    torch = pytest.importorskip("torch")
    values = torch.zeros(4, 6, dtype=torch.bfloat16)
    assert described(values) == "bfloat16[4,6]@cpu"
    assert described(values.t()) == "bfloat16[6,4]/1,6@cpu"
    assert described(values[:, ::2], out=torch.zeros(())) == "bfloat16[4,3]/6,2@cpu, out=float32[]@cpu"
    assert described(values.to_sparse()) == "bfloat16[4,6]/sparse_coo@cpu"
    assert described(torch.float16, torch.device("cpu")) == "torch.float16, cpu"
    assert (
        described(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged))
        == "float32[]/nested@cpu"
    )
    assert described(torch.zeros(2, device="meta")) == "float32[2]@meta"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_has_no_one_shape():
    torch = pytest.importorskip("torch")
    assert described(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])) == "float32[]/nested@cpu"


def test_arrays_are_told_alike():
    numpy = pytest.importorskip("numpy")
    values = numpy.zeros((4, 6), dtype="float32")
    assert described(values, numpy.float64(1.5)) == "float32[4,6], float64(1.5)"
    assert described(values.T) == "float32[6,4]/4,24"


def test_an_object_is_told_by_its_type_so_that_no_address_gets_in():
    class Model:
        pass

    assert described(Model()) == described(Model()) == "Model"


def test_a_repr_that_raises_is_never_asked():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert described(Broken(), [Broken()]) == "Broken, [Broken]"


def test_what_is_cut_off_still_tells_workloads_apart():
    first = described(*range(1000))
    second = described(*range(999), 7)
    assert len(first) == len(second) == LIMIT_CHARACTERS
    assert first != second
    assert described("x" * 1000) != described("x" * 999 + "y")


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children) | st.tuples(children),
    max_leaves=30,
)


@given(st.lists(nested, max_size=5), st.dictionaries(st.text(), nested, max_size=5))
def test_any_arguments_give_a_short_printable_text(args, kwargs):
    text = describe_arguments(args, kwargs)
    assert len(text) <= LIMIT_CHARACTERS
    assert text.isprintable()
    assert text == describe_arguments(args, dict(reversed(kwargs.items())))
