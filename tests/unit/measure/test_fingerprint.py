from __future__ import annotations

import enum
import random

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
        ([3, 1, 2, 5, 4, 7, 6, 8], "[3, 1, 2, 5, 4, 7, 6, 8]"),
        (list(range(100)), "[int, … of 100]"),
        ([[0.5, "a"]] * 100, "[[float, str], … of 100]"),
        ({f"key{i}": (i, None) for i in range(9)}, "{str: (int, NoneType), … of 9}"),
        ([Mode.FAST, 1] * 5, "[Mode, int, … of 10]"),
        ("x" * 58, repr("x" * 58)),
        ("x" * 59, "str of 59"),
        (b"\0" * 58, "bytes of 58"),
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
    assert described("x" * 1000) != described("x" * 999)


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: [r.random() for _ in range(500)],
        lambda r: [r.randrange(10 ** r.randrange(1, 30)) for _ in range(500)],
        lambda r: tuple((r.random(), f"{r.random()}") for _ in range(9)),
        lambda r: {r.random(): [r.random()] for _ in range(100)},
        lambda r: "".join(r.choices("abc\n\u1234", k=100)),
        lambda r: r.randbytes(200),
        lambda r: [bytes(r.randbytes(2)) for _ in range(20)],
        lambda r: {"rows": [r.random() for _ in range(64)], "dim": 3},
        lambda r: [r.choice([1.5, 2.5]) for _ in range(9)],
    ],
)
def test_data_drawn_anew_is_the_same_workload_while_its_size_is(draw):
    """Unseeded in every process, or seeded anew in every session as pytest-randomly does."""
    assert len({described(draw(random.Random(seed))) for seed in range(50)}) == 1


def test_long_data_of_another_size_or_kind_is_another_workload():
    data = [[1] * 100, [1] * 101, [1.0] * 100, (1,) * 100, ["1"] * 100, [[1]] * 100, [[1, 2]] * 100, "1" * 100]
    assert len({described(value) for value in data}) == len(data)


def test_tensors_in_long_containers_keep_their_shapes():
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    assert described([torch.zeros(2, 3)] * 9) == "[float32[2,3]@cpu, … of 9]"
    assert described([numpy.float32(value) for value in range(9)]) == "[float32, … of 9]"


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
