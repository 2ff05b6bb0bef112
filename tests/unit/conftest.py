"""What unit tests share: the modules of the scripts under benchmarks/, which are no package; what they leave behind."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pytest_gpuperf.measure.cupti import Cupti

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def script_module() -> Iterator[Callable[[str], ModuleType]]:
    """Import a module of the benchmarks' folder by its name, with those that it needs, for one file of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").parent == BENCHMARKS:
            del sys.modules[name]


@pytest.fixture(autouse=True)
def _profiles_of_this_test_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what scripted profilers attached, which is of the whole process otherwise."""
    monkeypatch.setattr(Cupti, "is_attached", False)
