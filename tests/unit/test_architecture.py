"""The stages keep to their order, and what is heavy or chatty keeps to its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_gpuperf

PACKAGE = Path(pytest_gpuperf.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

STAGES = ("stated", "naming", "settings", "options", "measure", "checks", "compare", "store", "report")
"""In the order that data flows; each may import those before it. The rooms below stand above all stages."""
KNOW_PYTEST = {"plugin", "hookspecs", "options", "gpubench", "session"}
COMMAND_LINE = {"cli", "commands"}
HEAVY = {"torch", "triton", "numpy", "scipy"}


def _room(module: str) -> str:
    """The stage or room of a dotted name below the package ("" for the package itself)."""
    return [*module.split("."), ""][1]


def _imports(node: ast.AST) -> Iterator[str]:
    """The dotted names that a statement imports; a submodule for `from package import submodule`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _all_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that can run, type-checking blocks left out."""
    for child in ast.iter_child_nodes(tree):
        if not _is_type_checking(child):
            yield child
            yield from _all_nodes(child)


def _import_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported."""
    for child in ast.iter_child_nodes(tree):
        if not _is_type_checking(child) and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _import_time_nodes(child)


def _names(nodes: Iterator[ast.AST]) -> set[str]:
    return {name for node in nodes for name in _imports(node)}


@pytest.fixture(params=MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def path(request: pytest.FixtureRequest) -> Path:
    module: Path = request.param
    return module


@pytest.fixture
def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.fixture
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_stages_import_only_those_before_them(tree: ast.Module, room: str) -> None:
    if room not in STAGES:
        return
    allowed = set(STAGES[: STAGES.index(room) + 1])
    own = {name for name in _names(_all_nodes(tree)) if name.startswith("pytest_gpuperf.")}
    assert {name for name in own if _room(name) not in allowed} == set()


def test_pytest_is_known_in_few_rooms(tree: ast.Module, room: str) -> None:
    if room in KNOW_PYTEST or room == "__init__":
        return
    roots = {name.split(".")[0] for name in _names(_all_nodes(tree))}
    assert roots.isdisjoint({"pytest", "_pytest", "xdist"})


def test_nothing_heavy_is_imported_with_a_module(tree: ast.Module) -> None:
    roots = {name.split(".")[0] for name in _names(_import_time_nodes(tree))}
    assert roots.isdisjoint(HEAVY)


def test_only_the_command_line_prints(tree: ast.Module, room: str) -> None:
    if room in COMMAND_LINE:
        return
    prints = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert prints == []


def test_functions_fit_on_a_screen(tree: ast.Module) -> None:
    long = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 50
    ]
    assert long == []


def test_every_module_says_what_it_is_for(tree: ast.Module) -> None:
    assert ast.get_docstring(tree)


def test_every_module_is_seen() -> None:
    assert {"plugin.py", "settings.py", "store/codec.py"} <= {str(path.relative_to(PACKAGE)) for path in MODULES}
