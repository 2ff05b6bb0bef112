"""One measurement at a time on a device, across the processes of one user."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(lock_name: str) -> Iterator[None]:
    """Hold the lock called `lock_name`, waiting for whoever holds it now.

    The kernel releases the lock of a process that dies, so there is nothing stale to clear away.
    """
    folder = Path(tempfile.gettempdir()) / f"gpuperf-locks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", lock_name)[:100]
    with (folder / f"{safe}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
