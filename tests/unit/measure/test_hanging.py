"""Waiting for what may never end."""

from __future__ import annotations

import threading

import pytest

from pytest_gpuperf.measure.errors import DeviceHangsError, StickyDeviceError
from pytest_gpuperf.measure.hanging import ends_within


def test_what_ends_is_waited_for():
    done = []
    assert ends_within(60.0, lambda: done.append(1))
    assert done == [1]


def test_what_does_not_end_is_given_up():
    never = threading.Event()
    try:
        assert not ends_within(0.01, lambda: never.wait() and None)
    finally:
        never.set()


def test_what_is_raised_arrives():
    def wait():
        raise RuntimeError("an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        ends_within(60.0, wait)


def test_the_fake_device_refuses_everything_after_work_without_an_end(fake):
    fake.clock.hang()
    with pytest.raises(DeviceHangsError, match=r"not done with the work of test_a\.py::test_a after 2 s"):
        fake.await_call("test_a.py::test_a", 2.0)
    assert fake.hangs
    with pytest.raises(StickyDeviceError, match=r"since test_a\.py::test_a \(not done after 2 s\)"):
        fake.check_usable()
