"""Real files, real processes: a reader sees the old content or the new, whatever happens to the writer."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from pytest_gpuperf.store import files
from pytest_gpuperf.store.errors import LockedFileError, UnreadableFileError, UnwritableFileError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "main.json"
    path.write_bytes(b"old")
    return path


def _members(folder: Path) -> list[str]:
    return sorted(member.name for member in folder.iterdir())


def test_write_replaces_the_whole_and_leaves_nothing_beside_it(file: Path) -> None:
    files.write_file(file, b"new")
    assert file.read_bytes() == b"new"
    assert _members(file.parent) == ["main.json"]


def test_the_mode_is_kept(file: Path) -> None:
    file.chmod(0o640)
    files.write_file(file, b"new")
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_linked_file_is_written_where_it_is(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "linked" / "here.json"
    link.parent.mkdir()
    link.symlink_to(file)
    files.write_file(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == files.read_file(link) == b"new"
    assert _members(link.parent) == ["here.json"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
@pytest.mark.parametrize(
    ("code", "match"),
    [
        (errno.ENOSPC, r"No space left on device\). Free some space"),
        (errno.EROFS, r"Read-only file system\). Make it writable, or .*--gpuperf-storage"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_failing_write_leaves_the_old_file_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, match: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    if step == "write":
        monkeypatch.setattr(files, "_write_synced", lambda temporary, *_: (temporary.write_bytes(b"n"), fail()))
    else:
        monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[step], fail)
    with pytest.raises(UnwritableFileError, match=f"^{file}: cannot be written .*{match}"):
        files.write_file(file, b"new")
    assert file.read_bytes() == b"old"
    assert _members(file.parent) == ["main.json"]


def test_a_full_device_is_met_for_real(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    (tmp_path / ".main.json.tmp").symlink_to("/dev/full")
    with pytest.raises(UnwritableFileError, match=r"No space left on device\). Free some space"):
        files.write_file(tmp_path / "main.json", b"new" * 100_000)
    assert _members(tmp_path) == []


def test_a_file_marked_read_only_is_not_replaced(file: Path) -> None:
    file.chmod(0o444)
    with pytest.raises(UnwritableFileError, match=r"marked read-only.* Make it writable"):
        files.write_file(file, b"new")
    assert file.read_bytes() == b"old"


def test_a_folder_of_that_name_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "main.json"
    folder.mkdir()
    with pytest.raises(UnreadableFileError, match=r"Is a directory\). Make it a readable file"):
        files.read_file(folder)
    with pytest.raises(UnwritableFileError, match="Is a directory"):
        files.write_file(folder, b"new")
    assert folder.is_dir()


def test_a_dangling_link_is_not_taken_for_an_absent_file(tmp_path: Path) -> None:
    link = tmp_path / "main.json"
    link.symlink_to(tmp_path / "gone.json")
    with pytest.raises(UnreadableFileError, match=r"symbolic link to .*gone\.json, which is not there"):
        files.read_file(link)


def test_a_file_without_permission_is_unreadable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.chmod(0)
    if os.access(file, os.R_OK):  # root reads everything

        def denied(_: Path) -> bytes:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(UnreadableFileError, match=r"Permission denied\). Make it a readable file"):
        files.read_file(file)


def test_a_path_through_a_file_cannot_be_locked(file: Path) -> None:
    with pytest.raises(UnwritableFileError, match="cannot be written"), files.locked(file / "below.json"):
        pytest.fail("locked")


def test_a_read_only_folder_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(UnwritableFileError, match=r"Read-only file system.*--gpuperf-storage"),
        files.locked(tmp_path / "main.json"),
    ):
        pytest.fail("locked")


def test_the_lock_makes_its_folder_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "main.json"
    with files.locked(path):
        assert _members(path.parent) == [".main.json.lock"]
    assert _members(path.parent) == []


def test_who_waits_in_vain_is_told_who_holds_the_lock(file: Path) -> None:
    with (
        files.locked(file),
        pytest.raises(LockedFileError, match=f"locked for 0 s by process {os.getpid()} on .* Wait for"),
        files.locked(file, wait_s=0),
    ):
        pytest.fail("locked twice")
    assert _members(file.parent) == ["main.json"]


def test_a_lock_ends_with_its_process(file: Path) -> None:
    code = f"""
        import sys
        from pathlib import Path
        from pytest_gpuperf.store.files import locked
        with locked(Path({str(file)!r})):
            print("held", flush=True)
            sys.stdin.read()
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LockedFileError, match=f"process {holder.pid} "), files.locked(file, wait_s=0):
            pytest.fail("locked twice")
    finally:
        holder.kill()
        holder.communicate()
    with files.locked(file, wait_s=30):
        files.write_file(file, b"new")
    assert _members(file.parent) == ["main.json"]


def test_one_at_a_time(tmp_path: Path) -> None:
    counter = tmp_path / "count"
    counter.write_text("0")

    def count_up() -> None:
        for _ in range(20):
            with files.locked(counter):
                files.write_file(counter, str(int(counter.read_text()) + 1).encode())

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert counter.read_text() == "80"
    assert _members(tmp_path) == ["count"]


def test_a_reader_never_sees_half_a_file(file: Path) -> None:
    contents = [bytes([letter]) * 200_000 for letter in b"ab"]
    file.write_bytes(contents[0])
    done = threading.Event()

    def write_on() -> None:
        for number in range(60):
            files.write_file(file, contents[number % 2])
        done.set()

    writer = threading.Thread(target=write_on)
    writer.start()
    seen = set()
    while not done.is_set():
        seen.add(files.read_file(file))
    writer.join(timeout=60)
    assert seen <= set(contents)
    assert seen


def test_a_users_own_file_is_replaced_as_a_whole(file: Path) -> None:
    file.chmod(0o640)
    link = file.with_name("link")
    link.symlink_to("main.json")
    files.write_text_whole(link, "né")
    assert file.read_text(encoding="utf-8") == "né"
    assert file.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert _members(file.parent) == ["link", "main.json"]


def test_a_users_own_file_is_left_alone_where_the_disk_is_full(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_text_whole(file, "new")
    assert file.read_bytes() == b"old"
    assert _members(file.parent) == ["main.json"]


def test_a_pipe_gets_the_text_as_it_comes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    files.write_text_whole(pipe, "text")
    reader.join()
    assert got == ["text"]
    assert _members(tmp_path) == ["pipe"]
