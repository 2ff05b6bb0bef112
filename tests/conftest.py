"""What all tests share: pytest's own test harness, and slow tests that run only when asked for."""

from __future__ import annotations

# A run inside this process forgets what it imported; what is imported here is not imported anew each time.
import hypothesis
import pytest

__all__ = ["hypothesis"]

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes more than some seconds; runs only with -m that says slow, or by id")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = "slow" in config.option.markexpr or any("::" in argument for argument in config.args)
    slow = [] if asked else [item for item in items if item.get_closest_marker("slow") is not None]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]
