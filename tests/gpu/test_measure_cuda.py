"""Measuring on a real CUDA device. Every behaviour has a counterpart with scripted tools under tests/unit/measure."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.metadata import entry_points

import pytest

from pytest_gpuperf.measure import device_code
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.errors import DeviceUnavailableError, NoGpuWorkError, StreamChangedError
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.settings import BenchmarkSettings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def run(call, backend, *, setup=None, **settings):
    plan = Plan(
        benchmark=BenchmarkId(node_id="test"),
        settings=BenchmarkSettings(**{"max_time": 0.2, **settings}),
        setup=setup,
    )
    return measure(call, plan, backend)


@pytest.fixture
def vector(backend):
    return torch.randn(4096, device=backend.device)


def test_every_trial_comes_with_a_plausible_clock(backend, vector):
    found = run(lambda: vector + vector, backend)
    assert len(found.trials.clocks_ghz) == len(found.trials.times_us) >= 100
    assert 0.1 < found.record.clock_ghz < 5.0
    assert max(found.trials.clocks_ghz) < 1.5 * min(found.trials.clocks_ghz)


def test_a_queued_call_is_free_of_the_host(backend, vector):
    def with_python_around():
        until_ns = time.perf_counter_ns() + 50_000
        while time.perf_counter_ns() < until_ns:
            pass
        return vector + vector

    bare = run(lambda: vector + vector, backend).record
    busy = run(with_python_around, backend).record
    assert busy.host_us > 50.0
    assert busy.mean_us < bare.mean_us + 2.0
    assert any(note.startswith("launch-bound") for note in busy.notes)


def test_a_call_that_waits_for_the_device_is_timed_unqueued_and_says_so(backend, vector):
    found = run(lambda: vector.sum().item(), backend)
    assert any(note.startswith("unqueued") for note in found.record.notes)
    assert "unqueued" in found.identity.timer


def test_a_call_that_overfills_the_queue_is_still_measured(backend, vector):
    found = run(lambda: [vector.add_(1.0) for _ in range(3000)], backend, trials=20)
    assert any(note.startswith("unqueued") for note in found.record.notes)


def test_hundreds_of_launches_stay_queued_in_smaller_batches(backend, vector):
    found = run(lambda: [vector.add_(1.0) for _ in range(300)], backend, trials=20, timer="events")
    assert ", queued," in found.identity.timer
    assert len(set(found.trials.batch_indices)) > 1


@pytest.mark.parametrize(
    "call",
    [lambda: None, lambda: sum(range(1000)), lambda: torch.cuda.synchronize()],
    ids=["nothing", "host only", "wait only"],
)
@pytest.mark.parametrize("timer", ["events", "wall"])
def test_a_call_without_gpu_work_is_refused(backend, call, timer):
    with pytest.raises(NoGpuWorkError, match="no GPU work recorded"):
        run(call, backend, timer=timer)


@pytest.mark.parametrize("timer", ["events", "wall"])
def test_the_smallest_kernel_is_never_accused(backend, vector, timer):
    one = vector[:1]
    assert run(lambda: one.add_(1.0), backend, timer=timer).record.mean_us > 0.0


def test_work_on_a_side_stream_is_gpu_work(backend, vector):
    side = torch.cuda.Stream()

    def call():
        with torch.cuda.stream(side):
            vector.add_(1.0)

    run(call, backend)


def test_a_changed_stream_is_restored_and_refused(backend):
    before = torch.cuda.current_stream()
    with pytest.raises(StreamChangedError, match="changed the current stream"):
        run(lambda: torch.cuda.set_stream(torch.cuda.Stream()), backend)
    assert torch.cuda.current_stream() == before


def test_the_callers_own_stream_is_measured(backend, vector):
    with torch.cuda.stream(torch.cuda.Stream()):
        found = run(lambda: vector + vector, backend)
    assert found.record.mean_us < 100.0


def test_out_of_memory_fails_alone(backend, vector):
    with pytest.raises(torch.cuda.OutOfMemoryError):
        run(lambda: torch.empty(1 << 44, device=backend.device), backend)
    assert run(lambda: vector + vector, backend).record.trials >= 100


def test_an_exception_in_the_timed_region_fails_alone(backend, vector):
    calls = iter(range(10**9))

    def call():
        if next(calls) == 3000:
            raise ZeroDivisionError("in the timed region")
        return vector + vector

    with pytest.raises(ZeroDivisionError, match="in the timed region"):
        run(call, backend, trials=10_000)
    assert run(lambda: vector + vector, backend).record.trials >= 100


def test_cold_is_slower_than_warm_where_the_input_fits_the_cache(backend):
    values = torch.randn(5 << 20, device=backend.device)
    cold = run(lambda: values.neg_(), backend, cache="cold")
    warm = run(lambda: values.neg_(), backend, cache="warm")
    assert cold.record.mean_us > 1.1 * warm.record.mean_us
    assert (cold.identity.cache, warm.identity.cache) == ("cold", "warm")
    assert cold.identity.timer != warm.identity.timer


def test_wall_time_includes_the_launch(backend, vector):
    events = run(lambda: vector + vector, backend, timer="events").record
    wall = run(lambda: vector + vector, backend, timer="wall").record
    assert wall.mean_us > events.mean_us
    assert wall.clock_ghz is not None


def test_setup_gives_every_call_its_own_arguments(backend):
    seen = set()

    def call(values):
        seen.add(values.data_ptr())
        return values.add_(1.0)

    found = run(call, backend, setup=lambda: ((torch.zeros(1 << 20, device=backend.device),), {}), trials=20)
    assert found.record.trials == 20
    assert len(seen) > 1


def test_peak_memory_is_exact_and_repeatable(backend):
    values = torch.zeros(1 << 20, device=backend.device)
    peaks = {run(lambda: (values + 1.0) * 2.0, backend, trials=20).record.peak_memory_bytes for _ in range(3)}
    assert peaks == {2 * 4 * (1 << 20)}


def test_a_device_that_refuses_the_kernels_is_timed_by_sleep_and_coarse_clock(monkeypatch, vector):
    monkeypatch.setattr(device_code, "PTX", ".version 6.0\n.target sm_50\nnonsense\n")
    backend = backend_for("cuda")
    found = run(lambda: vector + vector, backend)
    assert "queued by sleep" in found.identity.timer
    assert any("sleep of fixed length" in note for note in found.record.notes)
    assert found.record.mean_us < 100.0
    backend.close()


def test_the_machine_is_named(backend):
    machine = backend.machine()
    assert machine.model == torch.cuda.get_device_name()
    assert machine.kind == "cuda"
    assert machine.uuid in backend.lock_name


def test_an_index_out_of_range_is_one_clear_error():
    with pytest.raises(DeviceUnavailableError, match=r"--gpuperf-device=cuda:99: there is no such GPU"):
        backend_for("cuda:99")


STICKY = """
import torch
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.errors import StickyDeviceError
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan

backend = backend_for("cuda")
values, beyond = torch.zeros(8, device="cuda"), torch.tensor([10**6], device="cuda")
try:
    measure(lambda: values[beyond], Plan(benchmark=BenchmarkId(node_id="culprit")), backend)
except RuntimeError as error:
    print("first:", type(error).__name__)
for _ in range(2):
    try:
        measure(lambda: values + values, Plan(benchmark=BenchmarkId(node_id="victim")), backend)
    except StickyDeviceError as error:
        print("later:", error)
backend.close()
"""


def test_after_a_sticky_error_everything_later_is_refused_with_one_message():
    done = subprocess.run([sys.executable, "-c", STICKY], capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("first:"), done.stderr
    assert len(lines) == 3
    assert all("in an error state since culprit" in line for line in lines[1:])


BLOCKING = """
import torch
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.settings import BenchmarkSettings

backend, values = backend_for("cuda"), torch.zeros(4096, device="cuda")
plan = Plan(benchmark=BenchmarkId(node_id="test"), settings=BenchmarkSettings(trials=20))
found = measure(lambda: values + values, plan, backend)
print(found.hazards, found.identity.timer)
"""


def test_blocking_launches_end_in_a_flagged_figure_and_not_in_a_hang():
    environment = {**os.environ, "CUDA_LAUNCH_BLOCKING": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BLOCKING], capture_output=True, text=True, timeout=120, env=environment
    )
    assert "CUDA_LAUNCH_BLOCKING is set" in done.stdout, done.stderr
    assert "events, unqueued" in done.stdout


ENDLESS = """
import torch

def test_before(gpubench):
    gpubench(torch.relu, torch.randn(4096, device=gpubench.device))

def test_endless(gpubench):
    gpubench(torch.cuda._sleep, 10**15)

def test_after(gpubench):
    gpubench(torch.relu, torch.randn(4096, device=gpubench.device))
"""


def test_a_kernel_without_an_end_fails_its_test_and_ends_the_session(tmp_path):
    (tmp_path / "test_endless.py").write_text(ENDLESS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--gpuperf", "--gpuperf-hang-timeout=3"]
    plugin = [] if any(p.name == "gpuperf" for p in entry_points(group="pytest11")) else ["-p", "pytest_gpuperf.plugin"]
    done = subprocess.run([*command, *plugin, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "was not done with the work of test_endless.py::test_endless after 3 s" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
    # The device is free again.
    assert torch.ones(8, device="cuda").sum().item() == 8
