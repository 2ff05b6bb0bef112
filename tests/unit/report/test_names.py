"""Names are short, unique, and fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.measure.plan import BenchmarkId
from pytest_gpuperf.report.names import display_width, natural_key, short_names, shorten, shorten_all, split_node_id

_words = st.text(alphabet="abc_", min_size=1, max_size=4)
_node_ids = st.builds(
    lambda folders, file, classes, test, params: (
        "/".join([*folders, f"test_{file}.py"]) + "".join(f"::Test{c}" for c in classes) + f"::test_{test}{params}"
    ),
    st.lists(_words, max_size=3),
    _words,
    st.lists(_words, max_size=2),
    _words,
    st.sampled_from(["", "[1-2]", "[a::b/c]", "[x]"]),
)
_benchmarks = st.builds(BenchmarkId.of, _node_ids, st.sampled_from(["", "forward", "backward"]))
_any_text = st.text(min_size=1, max_size=40)


def _names(*node_ids: str) -> list[str]:
    return list(short_names(BenchmarkId.of(node_id) for node_id in node_ids).values())


def test_the_test_alone_where_it_is_unique() -> None:
    assert _names("tests/test_a.py::test_x[1]", "tests/test_b.py::TestB::test_y") == ["test_x[1]", "test_y"]


def test_as_much_of_the_path_as_is_needed() -> None:
    names = _names("a/test_a.py::test_x", "b/test_a.py::test_x", "b/test_b.py::test_x", "b/test_b.py::TestC::test_x")
    assert names == ["a/test_a.py::test_x", "b/test_a.py::test_x", "test_b.py::test_x", "TestC::test_x"]


def test_parameters_are_not_taken_apart() -> None:
    assert _names("test_a.py::test_x[a/b::c]") == ["test_x[a/b::c]"]


def test_several_benchmarks_of_one_test_show_their_names() -> None:
    ids = [BenchmarkId.of("test_a.py::test_x", name) for name in ("forward", "backward")]
    assert list(short_names(ids).values()) == ["test_x (forward)", "test_x (backward)"]


@given(st.lists(_benchmarks, unique=True))
def test_names_are_unique_endings_of_labels(benchmarks: list[BenchmarkId]) -> None:
    names = short_names(benchmarks)
    assert list(names) == benchmarks
    assert len(set(names.values())) == len(benchmarks)
    assert all(benchmark.label.endswith(name) for benchmark, name in names.items())


@given(st.lists(_benchmarks, unique=True), st.integers(min_value=8, max_value=40))
def test_cut_names_are_unique_and_fit(benchmarks: list[BenchmarkId], width: int) -> None:
    names = list(short_names(benchmarks, width).values())
    assert len(set(names)) == len(benchmarks)
    assert all(display_width(name) <= width for name in names)


@given(st.lists(_any_text, unique=True, max_size=30), st.integers(min_value=8, max_value=20))
def test_any_texts_stay_different_when_cut(texts: list[str], width: int) -> None:
    cut = shorten_all(texts, width)
    assert len(set(cut)) == len(texts)
    assert all(display_width(text) <= width for text in cut)
    assert all(short == full for short, full in zip(cut, texts, strict=True) if display_width(full) <= width)


def test_what_differs_in_the_middle_is_numbered_in_order() -> None:
    texts = [f"{'a' * 30}{digit}{'b' * 30}" for digit in "213"]
    assert shorten_all(texts, 12) == ["aaaaaaaaa…~2", "aaaaaaaaa…~1", "aaaaaaaaa…~3"]


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("test_gelu[triton-67108864-bfloat16]", 20, "test_gelu…-bfloat16]"),
        ("test_short", 20, "test_short"),
        ("test_日本語[値-テスト]", 14, "test_…-テスト]"),
    ],
)
def test_the_middle_is_cut(name: str, width: int, expected: str) -> None:
    assert shorten(name, width) == expected


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("", 0), ("a\u200bb", 2)])
def test_display_width(text: str, width: int) -> None:
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("node_id", "parts"),
    [
        ("tests/test_a.py::TestB::test_c[1-x]", ("tests/test_a.py", "TestB::test_c", "1-x")),
        ("tests/test_a.py::test_c", ("tests/test_a.py", "test_c", "")),
        ("test_a.py::test_c[a::b[0]]", ("test_a.py", "test_c", "a::b[0]")),
        ("odd", ("", "odd", "")),
    ],
)
def test_split_node_id(node_id: str, parts: tuple[str, str, str]) -> None:
    assert split_node_id(node_id) == parts


def test_numbers_are_ordered_as_numbers() -> None:
    assert sorted(["t[1024]", "t[256]", "t[1]", "t", "a10"], key=natural_key) == [
        "a10",
        "t",
        "t[1]",
        "t[256]",
        "t[1024]",
    ]


@given(st.lists(st.text(max_size=8)))
def test_any_texts_can_be_ordered(texts: list[str]) -> None:
    assert sorted(sorted(texts, key=natural_key)) == sorted(texts)
