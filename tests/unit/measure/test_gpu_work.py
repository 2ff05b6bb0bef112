from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.measure.cupti import Cupti
from pytest_gpuperf.measure.gpu_work import profiled_work


class Torch:
    """Scripted torch whose profiler sees what was launched, a share of it, or nothing."""

    def __init__(self, *, sees=True, fails=False):
        self.launched = 0
        self._sees, self._fails = sees, fails
        self.cuda = SimpleNamespace(synchronize=lambda index: None)
        self.autograd = SimpleNamespace(DeviceType=SimpleNamespace(CUDA="cuda"))
        self.profiler = SimpleNamespace(ProfilerActivity=SimpleNamespace(CUDA="cuda"), profile=self._profile)

    def zeros(self, count, device):
        return SimpleNamespace(add_=lambda value: self.launch())

    def launch(self):
        self.launched += 1

    def _profile(self, activities, acc_events):
        if self._fails:
            raise RuntimeError("another profiler is active")
        before = self.launched
        host = SimpleNamespace(device_type="cpu")
        kernel = SimpleNamespace(
            device_type="cuda", name="k", id=1, time_range=SimpleNamespace(start=0.0, elapsed_us=lambda: 1.0)
        )

        class Profile:
            def __enter__(profile):
                return profile

            def __exit__(profile, *_):
                return None

            def events(profile):
                return [host] + [kernel] * (self.launched - before if self._sees else 0)

        return Profile()


def test_a_launch_is_work():
    torch = Torch()
    assert profiled_work(torch, torch.launch, 0) is True


def test_no_launch_is_no_work():
    assert profiled_work(Torch(), lambda: None, 0) is False


@pytest.mark.parametrize("torch", [Torch(sees=False), Torch(fails=True)], ids=["blind", "failing"])
def test_a_profiler_that_does_not_see_known_work_is_not_believed(torch):
    assert profiled_work(torch, lambda: None, 0) is None
    assert profiled_work(torch, torch.launch, 0) is None


def test_what_the_call_raises_goes_through():
    def broken():
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        profiled_work(Torch(), broken, 0)


@pytest.mark.parametrize("sees", [True, False])
def test_a_profile_that_sees_the_device_leaves_cupti_attached(monkeypatch, sees):
    monkeypatch.setattr(Cupti, "is_attached", False)
    torch = Torch(sees=sees)
    profiled_work(torch, torch.launch, 0)
    assert Cupti.is_attached is sees
