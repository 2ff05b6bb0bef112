from __future__ import annotations

from pathlib import Path

import pytest

from pytest_gpuperf.settings import CHECKS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "checks.md"


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_has_its_row(name):
    assert f"\n| `{name}` | " in PAGE.read_text(encoding="utf-8")
