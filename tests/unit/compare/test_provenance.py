"""Whether each side of an A/B comparison ran its own code."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from pytest_gpuperf.compare.provenance import Tree, built_extensions, foreign_modules, installed_copies

OLD, NEW, SITE = Path("/tmp/x/repo"), Path("/work/repo"), Path("/usr/lib/site-packages")
TRACKED = tuple(
    PurePosixPath(name)
    for name in (
        "src/kernels/__init__.py",
        "src/kernels/gelu.py",
        "tools.py",
        "perf/helper.py",
        "bindings/python/fast/__init__.py",
        "third_party/numpy/__init__.py",
        "torch/__init__.py",
        "tests/util/__init__.py",
    )
)


def _foreign(modules: dict[str, str], inert: tuple[Path, ...] = ()) -> list[str]:
    return list(foreign_modules(modules, Tree(own=OLD, other=NEW, tracked=TRACKED, inert=inert)))


def test_its_own_modules_and_what_is_installed() -> None:
    assert _foreign({"kernels": f"{OLD}/src/kernels/__init__.py", "numpy": f"{SITE}/numpy/__init__.py"}) == []


def test_modules_of_the_other_tree() -> None:
    modules = {"kernels": f"{OLD}/src/kernels/__init__.py", "kernels.gelu": f"{NEW}/src/kernels/gelu.py"}
    assert _foreign(modules) == ["kernels.gelu"]


@pytest.mark.parametrize("name", ["kernels", "fast", "tools"])
def test_an_installed_copy(name: str) -> None:
    file = f"{SITE}/tools.py" if name == "tools" else f"{SITE}/{name}/__init__.py"
    assert _foreign({name: file}) == [name]


@pytest.mark.parametrize(
    "modules",
    [
        {"numpy": f"{SITE}/numpy/__init__.py"},
        {"util": f"{SITE}/util/__init__.py"},
        {"helper": f"{SITE}/helper.py"},
        {"torch": f"{SITE}/torch/__init__.py", "torch.nn": f"{SITE}/torch/nn.py", "torch.fx": f"{SITE}/torch/fx.py"},
        {"kernels": f"{SITE}/kernels/_native.so"},
    ],
    ids=["vendored", "of the tests", "a module in a folder", "only the name", "compiled"],
)
def test_what_is_no_copy(modules: dict[str, str]) -> None:
    assert _foreign(modules) == []


def test_an_environment_inside_of_a_tree_is_no_part_of_it() -> None:
    modules = {"requests": f"{NEW}/.venv/requests/__init__.py", "kernels": f"{NEW}/.venv/kernels/__init__.py"}
    assert _foreign(modules, (NEW / ".venv",)) == ["kernels"]
    own = {"kernels": f"{OLD}/.venv/kernels/__init__.py"}
    assert _foreign(own, (OLD / ".venv",)) == ["kernels"]


def test_the_tool_itself_is_not_compared() -> None:
    assert _foreign({"pytest_gpuperf.plugin": f"{NEW}/pytest_gpuperf/plugin.py", "__main__": f"{NEW}/tools.py"}) == []


def test_half_of_the_files_make_a_copy() -> None:
    modules = {"kernels": f"{SITE}/kernels/__init__.py", "kernels.new": f"{SITE}/kernels/new.py"}
    assert installed_copies(modules, TRACKED) == {"kernels"}
    assert installed_copies({**modules, "kernels.newer": f"{SITE}/kernels/newer.py"}, TRACKED) == set()


def test_built_extensions() -> None:
    modules = {
        "kernels._native": f"{NEW}/src/kernels/_native.so",
        "math": "/usr/lib/math.so",
        "other": f"{NEW}/.venv/other.so",
        "kernels": f"{NEW}/src/kernels/__init__.py",
    }
    assert built_extensions(modules, NEW, [NEW / ".venv"]) == {"kernels._native": f"{NEW}/src/kernels/_native.so"}
