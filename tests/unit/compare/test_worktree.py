"""Another revision beside the working tree, and what its paths are called there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gpuperf.compare.worktree import RevisionError, Worktree


def _git(*arguments: str, cwd: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "someone@example.org")
    path = tmp_path / "repository"
    (path / "src" / "kernels").mkdir(parents=True)
    (path / "src" / "kernels" / "__init__.py").write_text("VERSION = 1\n")
    (path / ".gitignore").write_text(".venv/\n")
    _git("init", "--quiet", cwd=path)
    _git("add", "--all", cwd=path)
    _git("commit", "--quiet", "--message=one", cwd=path)
    (path / "src" / "kernels" / "__init__.py").write_text("VERSION = 2\n")
    (path / "new.py").write_text("")
    return path


@pytest.fixture
def tree(repository: Path) -> Iterator[Worktree]:
    with Worktree("HEAD", repository) as tree:
        yield tree
    assert not tree.root.exists()
    assert len(_git("worktree", "list", cwd=repository).splitlines()) == 1


def test_it_holds_the_revision(tree: Worktree) -> None:
    assert (tree.root / "src/kernels/__init__.py").read_text() == "VERSION = 1\n"
    assert not (tree.root / "new.py").exists()
    assert [str(path) for path in tree.tracked_files] == ["src/kernels/__init__.py"]
    assert len(tree.commit) == 40


def test_it_is_found_from_a_subdirectory(repository: Path) -> None:
    with Worktree("HEAD", repository / "src") as tree:
        assert tree.top == repository


def test_the_users_hooks_do_not_run(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {repository}/was-run\n")
    hook.chmod(0o755)
    with Worktree("HEAD", repository):
        assert not (repository / "was-run").exists()


def test_the_environment_of_a_git_hook_does_not_mislead(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    with Worktree("HEAD", repository) as tree:
        assert tree.root.is_dir()


def test_it_is_removed_after_an_error(repository: Path) -> None:
    with pytest.raises(RuntimeError, match="in between"), Worktree("HEAD", repository) as tree:
        raise RuntimeError("in between")
    assert not tree.root.exists()


def test_it_is_removed_even_if_it_was_changed_or_removed_already(repository: Path) -> None:
    tree = Worktree("HEAD", repository)
    (tree.root / "src/kernels/__init__.py").write_text("changed")
    (tree.root / "added").write_text("")
    tree.remove()
    tree.remove()
    assert len(_git("worktree", "list", cwd=repository).splitlines()) == 1


@pytest.mark.parametrize("revision", ["absent", "HEAD~1", "HEAD:new.py", "--help"])
def test_no_revision(repository: Path, revision: str) -> None:
    with pytest.raises(RevisionError, match="there is no such revision here; see `git log`"):
        Worktree(revision, repository)


def test_no_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RevisionError, match="git is not installed"):
        Worktree("HEAD", repository)


def test_a_tree_in_use_is_not_taken_for_abandoned(repository: Path) -> None:
    with Worktree("HEAD", repository) as first, Worktree("HEAD", repository):
        assert first.root.is_dir()


def test_counterparts(tree: Worktree, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree.top)
    assert tree.counterpart(tree.top / "src") == tree.root / "src"
    assert tree.counterpart(tmp_path / "link" / "src") == tree.root / "src"
    assert tree.counterpart(tmp_path) is None


def test_folders_to_be_in(tree: Worktree, tmp_path: Path) -> None:
    assert tree.folder_for(tmp_path) == tmp_path
    assert tree.folder_for(tree.top / "later" / "added") == tree.root / "later" / "added"
    assert (tree.root / "later" / "added").is_dir()


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("{top}/tests/test_a.py::test_b[x::y]", "{root}/tests/test_a.py::test_b[x::y]"),
        ("{top}", "{root}"),
        ("tests/test_a.py", "tests/test_a.py"),
        ("--rootdir={top}/src", "--rootdir={root}/src"),
        ("-c{top}/pytest.ini", "-c{root}/pytest.ini"),
        ("pythonpath={top}/src {top}/lib", "pythonpath={root}/src {root}/lib"),
        ("--paths={top}/a,{top}/b:{top}", "--paths={root}/a,{root}/b:{root}"),
        ("{top}-elsewhere/a", "{top}-elsewhere/a"),
        ("--a={top}-elsewhere/a", "--a={top}-elsewhere/a"),
        ("/elsewhere{top}/a", "/elsewhere{top}/a"),
        ("-k", "-k"),
        ("not slow", "not slow"),
    ],
)
def test_arguments(tree: Worktree, argument: str, expected: str) -> None:
    places = {"top": tree.top, "root": tree.root}
    assert tree.translated(argument.format(**places), tree.top) == expected.format(**places)


def test_relative_arguments_from_outside(tree: Worktree) -> None:
    outside = tree.top.parent
    assert tree.translated("repository/src::test_a", outside) == f"{tree.root}/src::test_a"
    assert tree.translated("repository/absent", outside) == "repository/absent"


def test_import_paths(tree: Worktree, tmp_path: Path) -> None:
    paths = ["", str(tree.top / "src"), str(tmp_path), str(tree.top / ".venv"), str(tree.top), str(tree.top / "src")]
    assert tree.import_paths(paths) == [str(tree.root / "src"), str(tree.root)]


def test_import_roots(tree: Worktree) -> None:
    modules = {
        "kernels": f"{tree.top}/src/kernels/__init__.py",
        "kernels.gelu": f"{tree.top}/src/kernels/gelu.py",
        "tool": f"{tree.top}/tools/tool.py",
        "conftest": f"{tree.top}/tests/conftest.py",
        "test_a": f"{tree.top}/tests/test_a.py",
        "json": "/usr/lib/python3/json/__init__.py",
    }
    assert tree.import_roots(modules) == [f"{tree.top}/src", f"{tree.top}/tools"]


def test_ignored_folders(tree: Worktree, tmp_path: Path) -> None:
    (tree.top / ".venv").mkdir()
    assert tree.ignored([str(tmp_path), str(tree.top / "src"), str(tree.top / ".venv"), ""]) == [tree.top / ".venv"]
    assert tree.ignored([str(tmp_path)]) == []
