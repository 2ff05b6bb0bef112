"""Did each side of an A/B comparison really run its own code? Judged by the files of the modules it imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

EXTENSION_SUFFIXES = (".so", ".pyd")
OWN_PACKAGE = "pytest_gpuperf"
"""The tool that measures is no part of what is compared."""
NOT_IMPORTED_FROM = frozenset(
    {"third_party", "thirdparty", "3rdparty", "vendor", "_vendor", "vendored", "external", "extern", "deps"}
    | {"test", "tests", "docs", "doc", "examples", "build", "dist"}
)
"""Folders whose packages are others' or for show: an installed package of the same name is not a copy of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One side's tree, and what there is beside it."""

    own: Path
    other: Path
    """The other side's tree."""
    tracked: Collection[PurePosixPath]
    """The revision's Python files, relative to its top."""
    inert: Collection[Path] = ()
    """Folders of installed packages (virtual environments), which are no tree's even if they lie in one."""


def foreign_modules(modules: Mapping[str, str], tree: Tree) -> dict[str, str]:
    """Return the modules (name: file) that a side imported from where it should not have.

    That is from the other tree, or from an installed copy of a package that the trees themselves hold.
    """
    outside = {name: file for name, file in sorted(modules.items()) if _is_judged(name) and not _is_own(file, tree)}
    copies = installed_copies(outside, tree.tracked)
    return {
        name: file
        for name, file in outside.items()
        if name.partition(".")[0] in copies or (Path(file).is_relative_to(tree.other) and not _installed(file, tree))
    }


def installed_copies(modules: Mapping[str, str], tracked: Collection[PurePosixPath]) -> set[str]:
    """Return the top-level names, among modules from outside the tree, whose files a folder of the tree holds too.

    At least half of a package's imported files have to be in one folder of the tree, so that a folder that happens to
    be called `torch` makes no copy of torch. Single modules count at the top and under `src`.
    """
    by_name: dict[str, list[PurePosixPath]] = {}
    for path in tracked:
        by_name.setdefault(path.name, []).append(path)
    imported: dict[str, list[PurePosixPath]] = {}
    for name, file in modules.items():
        if file.endswith(".py"):
            imported.setdefault(name.partition(".")[0], []).append(_below_import_path(name, file))
    return {name for name, files in imported.items() if _is_held(files, by_name)}


def _is_held(files: Collection[PurePosixPath], by_name: Mapping[str, Iterable[PurePosixPath]]) -> bool:
    roots = Counter(
        root
        for file in files
        for path in by_name.get(file.name, ())
        if (root := _root_of(path, file)) is not None and not NOT_IMPORTED_FROM.intersection(root.parts)
    )
    if all(len(file.parts) == 1 for file in files):
        roots = Counter({root: count for root, count in roots.items() if str(root) in (".", "src")})
    return any(2 * count >= len(files) for count in roots.values())


def _root_of(path: PurePosixPath, file: PurePosixPath) -> PurePosixPath | None:
    """Return the folder below which `path` is `file`; None where it is another file."""
    at = len(path.parts) - len(file.parts)
    return PurePosixPath(*path.parts[:at]) if at >= 0 and path.parts[at:] == file.parts else None


def _below_import_path(name: str, file: str) -> PurePosixPath:
    """Return the module's file relative to the import path it was found on: `a/b.py` or `a/b/__init__.py` for `a.b`."""
    parts = name.split(".")
    last = Path(file).name
    return PurePosixPath(*parts, last) if last == "__init__.py" else PurePosixPath(*parts[:-1], last)


def _is_judged(name: str) -> bool:
    return name.partition(".")[0] not in (OWN_PACKAGE, "__main__")


def _is_own(file: str, tree: Tree) -> bool:
    return Path(file).is_relative_to(tree.own) and not _installed(file, tree)


def _installed(file: str, tree: Tree) -> bool:
    return any(Path(file).is_relative_to(folder) for folder in tree.inert)


def built_extensions(modules: Mapping[str, str], tree: Path, inert: Collection[Path] = ()) -> dict[str, str]:
    """Return the compiled modules that come out of the tree itself, which a checkout of another revision lacks."""
    return {
        name: file
        for name, file in sorted(modules.items())
        if file.endswith(EXTENSION_SUFFIXES)
        and Path(file).is_relative_to(tree)
        and not any(Path(file).is_relative_to(folder) for folder in inert)
    }
