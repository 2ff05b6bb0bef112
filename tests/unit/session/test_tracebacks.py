"""A failing call's traceback shows the test and the callable; an error of the plugin's own shows all of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_gpuperf.gpubench import GpuBench
from pytest_gpuperf.session.tracebacks import without_own_frames


def shown(call: Callable[[], object], error: type[BaseException]) -> list[str]:
    """Return the modules in the traceback of a call that raises."""
    with pytest.raises(error) as caught:
        call()
    return [str(entry.frame.f_globals["__name__"]) for entry in without_own_frames(caught).traceback]


def bench() -> GpuBench:
    return GpuBench("test_a.py::test_a", lambda: "cpu")


def raises() -> None:
    raise OSError("mine")


def test_only_the_tests_frames_and_the_callables_are_shown() -> None:
    modules = shown(lambda: bench()(raises), OSError)
    assert len(modules) == 3
    assert not [name for name in modules if name.startswith("pytest_gpuperf.")]


def test_what_is_said_to_users_needs_no_frames_of_ours() -> None:
    modules = shown(lambda: bench()(3), TypeError)  # type: ignore[arg-type]
    assert not [name for name in modules if name.startswith("pytest_gpuperf.")]


def test_an_error_of_our_own_keeps_its_frames() -> None:
    broken = GpuBench("test_b.py::test_b", lambda: "cpu", measurer=object())  # type: ignore[arg-type]
    assert "pytest_gpuperf.gpubench" in shown(lambda: broken(raises), AttributeError)


@pytest.mark.parametrize("said", [None, 7, ["pytest_gpuperf."], "of nobody"])
def test_errors_of_any_origin_are_shown_as_others_are(said: object) -> None:
    error = type("Error", (Exception,), {"__module__": said})

    def fails() -> None:
        raise error

    modules = shown(lambda: bench()(fails), error)
    assert len(modules) == 3
    assert not [name for name in modules if name.startswith("pytest_gpuperf.")]


def test_errors_elsewhere_are_left_alone() -> None:
    with pytest.raises(OSError, match="mine") as caught:
        raises()
    assert without_own_frames(caught) is caught
