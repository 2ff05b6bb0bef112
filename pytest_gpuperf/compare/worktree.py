"""Another revision of the repository, checked out beside it for as long as a comparison takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

GIT_TIMEOUT_SECONDS = 300
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
        self._folder = Path(tempfile.mkdtemp(prefix="gpuperf-against-"))
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
        _git(["worktree", "remove", "--force", str(self.root)], self.top, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)
        _git(["worktree", "prune"], self.top, check=False)

    def counterpart(self, path: Path) -> Path | None:
        """Return where the revision has what the working tree has at `path`; None for a path outside of it."""
        resolved = path.resolve()
        return self.root / resolved.relative_to(self.top) if resolved.is_relative_to(self.top) else None

    def translated(self, argument: str, cwd: Path) -> str:
        """Return a command-line argument with an absolute path into the working tree replaced by its counterpart.

        Relative paths stay: they are relative to the counterpart of the working directory then.
        """
        option, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        path, colons, names = value.partition("::")
        if not Path(path).is_absolute():
            return argument
        counterpart = self.counterpart(cwd / path)
        return argument if counterpart is None else f"{option}{equals}{counterpart}{colons}{names}"

    def import_paths(self, paths: Sequence[str]) -> list[str]:
        """Return the counterparts of those import paths that lie in the working tree, in their order.

        Put first, they also win over an editable installation of the working tree.
        """
        found = [self.counterpart(Path(path)) for path in paths if path]
        return [str(path) for path in found if path is not None and path.is_dir()]

    def tracked_modules(self) -> set[str]:
        """Return the names of top-level packages and modules that the revision holds, at its top or under `src`."""
        names: set[str] = set()
        for base in (self.root, self.root / "src"):
            if base.is_dir():
                names.update(entry.name for entry in base.iterdir() if (entry / "__init__.py").is_file())
                names.update(entry.stem for entry in base.glob("*.py"))
        return names - {"conftest", "setup"}

    def _check_out(self) -> None:
        done = _git(["worktree", "add", "--detach", "--force", str(self.root), self.commit], self.top, check=False)
        if done.returncode:
            raise RevisionError(f"--gpuperf-against={self.revision}: it cannot be checked out: {done.stderr.strip()}")
        if not (self.root / ".gitmodules").is_file():
            return
        done = _git(["submodule", "update", "--init", "--recursive"], self.root, check=False)
        if done.returncode:
            raise RevisionError(
                f"--gpuperf-against={self.revision}: its submodules cannot be checked out: {done.stderr.strip()}"
            )


def _top_of(inside: Path, revision: str) -> Path:
    if shutil.which("git") is None:
        raise RevisionError(f"--gpuperf-against={revision}: git is not installed")
    done = _git(["rev-parse", "--show-toplevel"], inside, check=False)
    if done.returncode:
        raise RevisionError(f"--gpuperf-against={revision}: {inside} is in no git repository ({done.stderr.strip()})")
    return Path(done.stdout.strip()).resolve()


def _commit_of(revision: str, top: Path) -> str:
    done = _git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"], top, check=False)
    if done.returncode == 0:
        return done.stdout.strip()
    shallow = _git(["rev-parse", "--is-shallow-repository"], top, check=False).stdout.strip() == "true"
    hint = (
        "this clone is shallow and may lack it: fetch it (`git fetch --unshallow`, or fetch-depth: 0 in CI)"
        if shallow
        else "see `git log` and `git branch -a`, or fetch it first"
    )
    raise RevisionError(f"--gpuperf-against={revision}: there is no such revision here; {hint}")


def _git(arguments: Sequence[str], cwd: Path, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    return subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        env={**environment, "GIT_TERMINAL_PROMPT": "0"},
        capture_output=True,
        text=True,
        timeout=GIT_TIMEOUT_SECONDS,
        check=check,
    )
