"""Where in the user's own code something happens."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType

LIBRARIES = ("torch", "triton", "torchvision", "torchaudio", "numpy", "pytest_gpuperf", "_pytest", "pluggy")
PASSING_ON = re.compile(r"/torch/(_dynamo/|_compile\.py|utils/_python_dispatch\.py)|/_pytest/logging\.py")
"""Files that lead from an operation into a dispatch mode, or from a message to where it is written."""
SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Place:
    """A line of code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """Name the line, and show what it says."""
        text = linecache.getline(self.file, self.line).strip()
        shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
        code = f" `{shown}`" if shown else ""
        return f"{_short(self.file)}:{self.line} in {self.function}{code}"


def place_of_user(frame: FrameType | None) -> Place | None:
    """Walk out of torch, of this package and of the standard library; None where no other code is on the stack.

    The walk ends at this package's frames that made the call: what lies beyond them is the test that asked for it.
    """
    while frame is not None:
        file = frame.f_code.co_filename
        if _is_own(file):
            if frame.f_code.co_name == "call_under_watch":
                return None
        elif not _is_library(file):
            return Place(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def is_users(frame: FrameType) -> bool:
    """Whether the user's code asks for something, be it through the standard library (`logging`, `pickle`)."""
    asking: FrameType | None = frame
    while asking is not None and _passes_on(asking.f_code.co_filename):
        asking = asking.f_back
    return asking is not None and not _is_library(asking.f_code.co_filename)


@lru_cache(maxsize=1024)
def _passes_on(file: str) -> bool:
    """Whether code stands between who asks and what is asked for: this package, torch's way into it, the library."""
    return _is_own(file) or _is_standard(file) or PASSING_ON.search(Path(file).as_posix()) is not None


@lru_cache(maxsize=1024)
def _is_own(file: str) -> bool:
    return Path(file).is_relative_to(Path(__file__).parents[1])


@lru_cache(maxsize=1024)
def _is_library(file: str) -> bool:
    if file.startswith("<"):
        return True
    return _is_standard(file) or any(Path(file).is_relative_to(root) for root in _library_roots())


@lru_cache(maxsize=1024)
def _is_standard(file: str) -> bool:
    path, standard = Path(file), Path(sysconfig.get_paths()["stdlib"])
    return path.is_relative_to(standard) and "site-packages" not in path.parts


def _library_roots() -> list[Path]:
    files = [getattr(sys.modules.get(name), "__file__", None) for name in LIBRARIES]
    return [Path(file).parent for file in files if file]


def _short(file: str) -> str:
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name
