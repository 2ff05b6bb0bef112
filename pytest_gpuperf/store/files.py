"""Files that are whole or not there: atomic writes, bounded locks, and errors that name the file."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from pytest_gpuperf.store.errors import LockedFileError, UnreadableFileError, UnwritableFileError

LOCK_WAIT_S = 30.0
_LOCK_POLL_S = 0.02
_WRITE_REMEDIES = {
    errno.ENOSPC: "Free some space, or choose another place with --gpuperf-storage",
    errno.EDQUOT: "Free some of your quota, or choose another place with --gpuperf-storage",
}
_WRITE_REMEDY = "Make it writable, or choose another place with --gpuperf-storage"
_READ_REMEDY = "Make it a readable file, remove it, or choose another place with --gpuperf-storage"


def read_file(path: Path) -> bytes | None:
    """The file's content; None where there is none. Raises UnreadableFileError."""
    if path.is_symlink() and not path.exists():
        problem = f"is a symbolic link to {path.readlink()}, which is not there"
        raise UnreadableFileError(str(path), problem, _READ_REMEDY)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFileError(str(path), f"cannot be read ({_reason(error)})", _READ_REMEDY) from error


def write_file(path: Path, data: bytes) -> None:
    """Write or replace the file as a whole; whoever reads meanwhile sees the old content or the new.

    Only for holders of the file's lock. Follows symbolic links, keeps the mode. Raises UnwritableFileError.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        mode = _mode_to_keep(target)
        _write_synced(temporary, data, mode)
        temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise _unwritable(path, error) from error


def remove_file(path: Path) -> None:
    """Remove the file, if it is there. Only for holders of its lock. Raises UnwritableFileError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def write_text_whole(path: Path, text: str) -> None:
    """Write or replace a file that is the user's own, as a whole; pipes and terminals get it as it comes.

    Follows symbolic links, keeps the mode. Raises OSError, and leaves what was there.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        _write_synced(temporary, text.encode(), stat.S_IMODE(target.stat().st_mode) if target.exists() else None)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold the file's lock, across processes, creating the folder where needed.

    The lock is a side file that exists only while it is held or waited for. It ends with its process, however that
    dies. Raises LockedFileError after `wait_s`, UnwritableFileError where the side file cannot be made or the file
    itself could not be written: a lock is taken only to write.
    """
    side = path.with_name(f".{path.name}.lock")
    try:
        side.parent.mkdir(parents=True, exist_ok=True)
        _mode_to_keep(Path(os.path.realpath(path)))
        descriptor = _acquired(side, path, wait_s)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            side.unlink()
        os.close(descriptor)


def _acquired(side: Path, path: Path, wait_s: float) -> int:
    deadline = time.monotonic() + wait_s
    while True:
        descriptor = os.open(side, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if _try_lock(descriptor) and _is_still(side, descriptor):
                _sign(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace")
        os.close(descriptor)
        if time.monotonic() >= deadline:
            raise LockedFileError(
                str(path),
                f"has been locked for {wait_s:g} s by {holder or 'a process that did not sign'}",
                "Wait for that process or end it, and run again",
            )
        time.sleep(_LOCK_POLL_S)


def _try_lock(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(side: Path, descriptor: int) -> bool:
    """Whether the locked file is the one at `side`: its last holder may have removed it since we opened it."""
    try:
        return os.path.samestat(side.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)


def _mode_to_keep(target: Path) -> int | None:
    """The existing file's permissions. A read-only file is refused: renaming over it would not ask."""
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return None
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not mode & 0o222:
        raise PermissionError(errno.EACCES, "the file is marked read-only")
    return mode


def _write_synced(temporary: Path, data: bytes, mode: int | None) -> None:
    with temporary.open("wb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder; the file itself is safe
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> UnwritableFileError:
    remedy = _WRITE_REMEDIES.get(error.errno or 0, _WRITE_REMEDY)
    return UnwritableFileError(str(path), f"cannot be written ({_reason(error)})", remedy)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
