"""Did each side of an A/B comparison really run its own code? Judged by the files of the modules it imported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

EXTENSION_SUFFIXES = (".so", ".pyd")
OWN_PACKAGE = "pytest_gpuperf"
"""The tool that measures is no part of what is compared."""


def foreign_modules(
    modules: Mapping[str, str], *, own: Path, other: Path, tracked: Collection[str], inert: Collection[Path] = ()
) -> dict[str, str]:
    """Return the modules (name: file) that a side imported from where it should not have.

    That is from the `other` tree, or, where the `own` tree holds a module of that name (`tracked`), from anywhere
    else, such as an installed copy. What lies in `inert` folders (virtual environments) is installed, not a tree.
    """
    return {
        name: file
        for name, file in sorted(modules.items())
        if name.partition(".")[0] != OWN_PACKAGE and _is_foreign(name, Path(file), own, other, tracked, inert)
    }


def _is_foreign(
    name: str, file: Path, own: Path, other: Path, tracked: Collection[str], inert: Collection[Path]
) -> bool:
    installed = any(file.is_relative_to(folder) for folder in inert)
    if file.is_relative_to(own) and not installed:
        return False
    return (file.is_relative_to(other) and not installed) or name.partition(".")[0] in tracked


def built_extensions(modules: Mapping[str, str], tree: Path, inert: Collection[Path] = ()) -> dict[str, str]:
    """Return the compiled modules that come out of the tree itself, which a checkout of another revision lacks."""
    return {
        name: file
        for name, file in sorted(modules.items())
        if file.endswith(EXTENSION_SUFFIXES)
        and Path(file).is_relative_to(tree)
        and not any(Path(file).is_relative_to(folder) for folder in inert)
    }
