"""Test ids of every kind give keys that are stable, bounded, unique, and safe in files and on terminals."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.measure.plan import KEY_LIMIT_CHARACTERS, NODE_ID_LIMIT_CHARACTERS, BenchmarkId

AWKWARD = [
    "tests/test_a.py::test_x[1]",
    "tests/test_b.py::test_x[1]",
    "tests/test_a.py::test_x[1-]",
    "tests/test_a.py::test_x[1_]",
    "tests/test_a.py::TestX::test_x",
    "t::x[é]",
    "t::x[e\N{COMBINING ACUTE ACCENT}]",
    "t::x[\ud800]",
    "t::x[\\ud800]",
    "t::x[\n]",
    "t::x[\\n]",
    "t::x[\x00]",
    "t::x[\x1b[31m]",
    "t::x[\N{RIGHT-TO-LEFT OVERRIDE}]",
    "t::x[../../etc/passwd]",
    "t::x[$(rm -rf /)]",
    "t::x[; `x` | > \"'*?]",
    "t::x[🙂]",
    "t::x[<object object at 0x7f>]",
    "t::x[" + "9" * 1_000_000 + "]",
    "t::x[" + "9" * 1_000_001 + "]",
    "t::x[" + "9" * 999_999 + "8]",
    "t::x[" + "\ud800" * 300 + "]",
    "t::x[" + "\\ud800" * 300 + "]",
    "",
    " ",
    "-",
    "a (b)",
]
anything = st.text(st.characters(codec=None), max_size=300) | st.sampled_from(
    [text for text in AWKWARD if len(text) < 9000]
)


def test_awkward_ids_are_told_apart() -> None:
    ids = [BenchmarkId.of(node_id, name) for node_id in AWKWARD for name in ("", "b", "x" * 300)]
    assert len(set(ids)) == len({benchmark.key for benchmark in ids}) == len(ids)


def test_a_name_is_not_taken_for_part_of_the_node_id() -> None:
    assert BenchmarkId.of("a (b)").key != BenchmarkId.of("a", "b").key


def test_keys_do_not_change_between_versions() -> None:
    assert BenchmarkId.of("plain-name_1.x").key == "plain-name_1.x"
    assert BenchmarkId.of("tests/test_a.py::test_x[1]").key == "tests-test_a.py-test_x-1--a1cbba7b4475"


def test_ordinary_ids_are_kept_as_they_are() -> None:
    benchmark = BenchmarkId.of("tests/test_é.py::test_x[größe 3]", "torch")
    assert benchmark.label == "tests/test_é.py::test_x[größe 3] (torch)"


@given(anything, anything)
def test_ids_and_keys_are_bounded_and_printable(node_id: str, name: str) -> None:
    benchmark = BenchmarkId.of(node_id, name)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", benchmark.key)
    assert len(benchmark.key) <= KEY_LIMIT_CHARACTERS
    assert max(len(benchmark.node_id), len(benchmark.name)) <= NODE_ID_LIMIT_CHARACTERS
    assert benchmark.label.isprintable()
    assert BenchmarkId.of(node_id, name) == benchmark


@given(st.lists(st.tuples(anything, anything), unique=True, max_size=6))
def test_different_tests_have_different_keys(pairs: list[tuple[str, str]]) -> None:
    for one, other in itertools.combinations(pairs, 2):
        assert BenchmarkId.of(*one).key != BenchmarkId.of(*other).key
