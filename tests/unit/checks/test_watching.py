"""The watcher of a GPU on a scripted profiler."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_gpuperf.checks.watching import CudaWatcher


def event(name, start, duration, device="cuda", **more):
    time_range = SimpleNamespace(start=start, elapsed_us=lambda: duration)
    return SimpleNamespace(name=name, time_range=time_range, device_type=device, **{"id": 1, **more})


class Torch:
    def __init__(self):
        self.log = []
        self.cuda = SimpleNamespace(
            synchronize=lambda index: self.log.append("synchronize"), _sleep=lambda cycles: self.log.append("sleep")
        )
        self.autograd = SimpleNamespace(DeviceType=SimpleNamespace(CUDA="cuda"))
        self.profiler = SimpleNamespace(ProfilerActivity=SimpleNamespace(CUDA="CUDA"), profile=self._profile)
        self.events = []

    def zeros(self, count, device):
        return SimpleNamespace(add_=lambda value: self.log.append("probe"))

    def _profile(self, activities, acc_events):
        assert (activities, acc_events) == (["CUDA"], True)
        torch = self

        class Profile:
            def __enter__(self):
                torch.log.append("start")
                return self

            def __exit__(self, *_):
                torch.log.append("stop")

            def events(self):
                return torch.events

        return Profile()


def test_launches_are_the_devices_events_in_order():
    torch = Torch()
    torch.events = [
        event("cudaLaunchKernel", 0, 5, device="cpu"),
        event("b", 20, 2, device_resource_id=13),
        event("a", 10, 4, device_resource_id=7),
        event("my range", 0, 100, is_user_annotation=True),
    ]
    found = CudaWatcher(torch, 0).watch(lambda: None).launches
    assert [(one.name, one.start_us, one.end_us, one.stream) for one in found] == [("a", 10, 14, 7), ("b", 20, 22, 13)]


def test_a_call_is_profiled_from_idle_to_idle():
    torch = Torch()
    torch.events = [event("gemm", 0, 5)]
    found = CudaWatcher(torch, 0).watch(lambda: torch.log.append("call") or "output")
    assert torch.log == ["synchronize", "start", "call", "synchronize", "stop"]
    assert found.output == "output"
    assert found.names == {"gemm": 1}


def test_the_profiler_is_started_once_in_a_process(monkeypatch):
    monkeypatch.setattr(CudaWatcher, "is_warm", False)
    torch = Torch()
    for _ in range(2):
        CudaWatcher(torch, 0).warm_up()
    assert torch.log.count("start") == 1
    assert torch.log.count("sleep") == 1
