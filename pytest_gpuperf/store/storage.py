"""Places to store files in. A place is a relative path with `/`, such as `baselines/NVIDIA-H200/main.json`."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from pytest_gpuperf.store.errors import InvalidNameError, StorageLocationError, UnreadableFileError
from pytest_gpuperf.store.files import locked, read_file, remove_file, write_file

NAME_LIMIT_CHARACTERS = 100


class Storage(Protocol):
    """Where baselines and session records live. Errors are `StoreError`s that name the file."""

    def read(self, place: str) -> bytes | None:
        """The content at a place; None where there is nothing."""

    def write(self, place: str, data: bytes) -> None:
        """Put content at a place, as a whole; called with the place's lock held."""

    def remove(self, place: str) -> None:
        """Remove what is at a place, if anything; called with the place's lock held."""

    def locked(self, place: str) -> AbstractContextManager[None]:
        """Keep all other processes from writing at a place."""

    def names(self, folder: str) -> tuple[str, ...]:
        """What is directly in a folder, sorted, hidden files left out; () where there is no such folder."""

    def describe(self, place: str) -> str:
        """How people are told of a place: a path or URL."""


@dataclass(frozen=True, slots=True)
class FolderStorage:
    """A folder of files; made when first written to."""

    root: Path

    def read(self, place: str) -> bytes | None:  # noqa: D102 - as the protocol says
        return read_file(self.root / place)

    def write(self, place: str, data: bytes) -> None:  # noqa: D102
        write_file(self.root / place, data)

    def remove(self, place: str) -> None:  # noqa: D102
        remove_file(self.root / place)

    def locked(self, place: str) -> AbstractContextManager[None]:  # noqa: D102
        return locked(self.root / place)

    def names(self, folder: str) -> tuple[str, ...]:  # noqa: D102
        path = self.root / folder
        try:
            return tuple(sorted(member.name for member in path.iterdir() if not member.name.startswith(".")))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise UnreadableFileError(
                str(path), f"cannot be listed ({error.strerror})", "Make it a readable folder, or set --gpuperf-storage"
            ) from error

    def describe(self, place: str) -> str:  # noqa: D102
        return str(self.root / place)


def open_storage(location: str | Path) -> Storage:
    """The storage at a folder or `file://` URL. Raises StorageLocationError for any other URL."""
    text = str(location)
    if "://" not in text:
        return FolderStorage(Path(text).expanduser())
    url = urlsplit(text)
    if url.scheme == "file" and url.netloc in ("", "localhost") and url.path:
        return FolderStorage(Path(unquote(url.path)))
    raise StorageLocationError(
        text,
        "is neither a folder nor a file:// URL of this machine",
        "Give --gpuperf-storage a folder; other places need the extra pytest-gpuperf[remote] and a plugin that "
        "implements pytest_gpuperf_make_storage",
    )


def checked_name(name: str, what: str = "baseline name") -> str:
    """`name` itself where it can be a file name everywhere. Raises InvalidNameError."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name) and len(name) <= NAME_LIMIT_CHARACTERS:
        return name
    raise InvalidNameError(
        f"{what} {name[:NAME_LIMIT_CHARACTERS]!r}",
        "cannot be a file name everywhere",
        f"Use 1 to {NAME_LIMIT_CHARACTERS} of the ASCII letters, digits and . _ -, not beginning with a dot or dash",
    )
