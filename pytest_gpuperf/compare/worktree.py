"""Another revision of the repository, checked out beside it for as long as a comparison takes."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

GIT_TIMEOUT_SECONDS = 300
FOLDER_PREFIX = "gpuperf-against-"
# What git itself sets for its hooks, and what would point it to another repository than the one we mean.
_INHERITED = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")


class RevisionError(Exception):
    """The revision cannot be compared with; the message names it and says why and what to do."""


class Worktree:
    """A revision's files in a folder of their own; use as a context manager, which always removes it."""

    def __init__(self, revision: str, inside: Path) -> None:
        """Check out `revision` of the repository that `inside` lies in. Raises `RevisionError`."""
        self.revision = revision
        self.top = _top_of(inside, revision)
        self.commit = _commit_of(revision, self.top)
        _remove_abandoned(self.top)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-")).resolve()
        self.root = self._folder / self.top.name
        try:
            self._check_out()
        except BaseException:
            self.remove()
            raise

    def __enter__(self) -> Worktree:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder, and git's memory of it."""
        _git(["worktree", "remove", "--force", str(self.root)], self.top)
        shutil.rmtree(self._folder, ignore_errors=True)
        _git(["worktree", "prune"], self.top)

    def counterpart(self, path: Path) -> Path | None:
        """Return where the revision has what the working tree has at `path`; None for a path outside of it."""
        resolved = path.resolve()
        return self.root / resolved.relative_to(self.top) if resolved.is_relative_to(self.top) else None

    def folder_for(self, path: Path) -> Path:
        """Return the folder to be in for what is done in the folder `path`; made where the revision has none."""
        folder = self.counterpart(path)
        if folder is None:
            return path
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def translated(self, argument: str, cwd: Path) -> str:
        """Return a command-line argument that means for the revision what `argument` means for the working tree.

        Paths into the working tree become their counterparts. Relative ones stay, since they are relative to the
        counterpart of the working directory then; unless that itself lies outside of the working tree.
        """
        if argument.startswith("-"):
            return self._with_tree_replaced(argument)
        path, colons, names = argument.partition("::")
        if not Path(path).is_absolute() and (self.counterpart(cwd) is not None or not (cwd / path).exists()):
            return self._with_tree_replaced(argument)
        counterpart = self.counterpart(cwd / path)
        return argument if counterpart is None else f"{counterpart}{colons}{names}"

    def _with_tree_replaced(self, argument: str) -> str:
        # Wherever a path may begin in an option: `-c/a/b`, `--rootdir=/a/b`, `-o pythonpath=/a/b`, `--x=/a/b,/a/c`.
        return re.sub(
            rf"(?:(?<=^-[A-Za-z])|(?<=[=:, ])){re.escape(str(self.top))}(?=$|[/:, ])", str(self.root), argument
        )

    def import_paths(self, paths: Iterable[str]) -> list[str]:
        """Return the counterparts of those import paths that lie in the working tree, in their order.

        Put first, they also win over an editable installation of the working tree.
        """
        found = [self.counterpart(Path(path)) for path in paths if path]
        return list(dict.fromkeys(str(path) for path in found if path is not None and path.is_dir()))

    def import_roots(self, modules: Mapping[str, str]) -> list[str]:
        """Return the folders of the working tree that these modules (name: file) were found in, tests aside.

        An editable installation may map names to folders without having any on the import path.
        """
        roots = {
            (Path(file).parent.parent if Path(file).name == "__init__.py" else Path(file).parent): None
            for name, file in modules.items()
            if "." not in name and not _is_test(Path(file)) and self.counterpart(Path(file)) is not None
        }
        return [str(root) for root in roots]

    def ignored(self, paths: Iterable[str]) -> list[Path]:
        """Return those of the folders in the working tree that git ignores: environments and installed packages."""
        inside = [str(Path(path).resolve()) for path in paths if path and self.counterpart(Path(path)) is not None]
        done = _git(["check-ignore", "--stdin", "-z"], self.top, given="\0".join(inside))
        return [Path(path) for path in done.stdout.split("\0") if path]

    @functools.cached_property
    def tracked_files(self) -> tuple[PurePosixPath, ...]:
        """The revision's Python files, relative to its top."""
        done = _git(["ls-files", "-z", "--recurse-submodules", "*.py"], self.root)
        return tuple(PurePosixPath(name) for name in done.stdout.split("\0") if name)

    def _check_out(self) -> None:
        # Without the user's hooks: what they start after a checkout is meant for another folder.
        add = ["-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", "--force", str(self.root), self.commit]
        done = _git(add, self.top)
        if done.returncode:
            raise RevisionError(f"--gpuperf-against={self.revision}: it cannot be checked out: {done.stderr.strip()}")
        for name, path in self._submodules().items():
            self._check_out_submodule(name, path)

    def _submodules(self) -> dict[str, str]:
        """Return the paths of the revision's submodules by their names; those left out of the working tree are not."""
        done = _git(["config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$"], self.root)
        pairs = [line.split(" ", 1) for line in done.stdout.splitlines()]
        paths = {key.removeprefix("submodule.").removesuffix(".path"): path for key, path in pairs}
        left_out = {name for name, path in paths.items() if (self.top / path).is_dir() and not _filled(self.top / path)}
        return {name: path for name, path in paths.items() if name not in left_out}

    def _check_out_submodule(self, name: str, path: str) -> None:
        update = ["submodule", "update", "--init", "--recursive", "--", path]
        common = _git(["rev-parse", "--git-common-dir"], self.top).stdout.strip()
        clone = (self.top / common / "modules" / name).resolve()
        if clone.is_dir():
            # From the clone that is there: needs no network, and no rights that this process may lack.
            local = ["-c", f"submodule.{name}.url={clone}", "-c", "protocol.file.allow=always"]
            if _git([*local, *update], self.root).returncode == 0:
                return
        done = _git(update, self.root)
        if done.returncode:
            raise RevisionError(
                f"--gpuperf-against={self.revision}: its submodule {path} cannot be checked out: {done.stderr.strip()}"
            )


def _filled(folder: Path) -> bool:
    return any(folder.iterdir())


def _is_test(file: Path) -> bool:
    return file.name == "conftest.py" or file.stem.startswith("test_") or file.stem.endswith("_test")


def _remove_abandoned(top: Path) -> None:
    """Remove what processes left behind that were killed before they could tidy up."""
    listed = _git(["worktree", "list", "--porcelain"], top).stdout
    for root in re.findall(r"^worktree (.+)$", listed, re.MULTILINE):
        owner = re.match(rf"{FOLDER_PREFIX}(\d+)-", Path(root).parent.name)
        if owner and not _is_running(int(owner[1])):
            _git(["worktree", "remove", "--force", "--force", root], top)
            shutil.rmtree(Path(root).parent, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _top_of(inside: Path, revision: str) -> Path:
    if shutil.which("git") is None:
        raise RevisionError(f"--gpuperf-against={revision}: git is not installed")
    done = _git(["rev-parse", "--show-toplevel"], inside)
    if done.returncode:
        raise RevisionError(f"--gpuperf-against={revision}: {inside} is in no git repository ({done.stderr.strip()})")
    return Path(done.stdout.strip()).resolve()


def _commit_of(revision: str, top: Path) -> str:
    done = _git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"], top)
    if done.returncode == 0:
        return done.stdout.strip()
    shallow = _git(["rev-parse", "--is-shallow-repository"], top).stdout.strip() == "true"
    hint = (
        "this clone is shallow and may lack it: fetch it (`git fetch --unshallow`, or fetch-depth: 0 in CI)"
        if shallow
        else "see `git log` and `git branch -a`, or fetch it first"
    )
    raise RevisionError(f"--gpuperf-against={revision}: there is no such revision here; {hint}")


def _git(arguments: Sequence[str], cwd: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    return subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        input=given,
        env={**environment, "GIT_TERMINAL_PROMPT": "0"},
        capture_output=True,
        text=True,
        timeout=GIT_TIMEOUT_SECONDS,
        check=False,
    )
