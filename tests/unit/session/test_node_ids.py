"""Node ids under pytest-xdist, whose versions append the groups of a test in different ways."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.session.bench import stable_node_id

TEST = "test_a.py::test_a[x@gpu]"


def item(node_id: str, *groups: object, loadgroup: bool = True) -> SimpleNamespace:
    """Return an item with marks, the closest first; a number stands for a mark without a name."""
    marks = [
        SimpleNamespace(args=(), kwargs={"name": group} if isinstance(group, str) else {})
        if index
        else SimpleNamespace(args=(group,) if isinstance(group, str) else (), kwargs={})
        for index, group in enumerate(groups)
    ]
    return SimpleNamespace(
        nodeid=node_id,
        iter_markers=lambda name: iter(marks if name == "xdist_group" else ()),
        config=SimpleNamespace(getoption=lambda name, default: loadgroup if name == "loadgroup" else default),
    )


@pytest.mark.parametrize(
    ("appended", "groups"),
    [("@gpu", ["gpu"]), ("@a b", ["a b"]), ("@default", [0]), ("@b", ["b", "a"]), ("@a_b", ["b", "a"]), ("", [])],
)
def test_what_xdist_appends_is_no_part_of_the_id(appended: str, groups: list[object]) -> None:
    assert stable_node_id(item(TEST + appended, *groups)) == TEST  # type: ignore[arg-type]


def test_without_groups_by_load_an_id_stays_whatever_it_ends_in() -> None:
    assert stable_node_id(item("test_a.py::test_a@gpu", "gpu", loadgroup=False)) == "test_a.py::test_a@gpu"  # type: ignore[arg-type]
