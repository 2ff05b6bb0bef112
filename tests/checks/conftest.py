"""Runs one callable through the checks as a measuring session does, with few trials; on a GPU too, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from pytest_gpuperf.checks.budget import Budget
from pytest_gpuperf.checks.finding import CheckFinding
from pytest_gpuperf.checks.inspection import Inspected, Inspection
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.measure.backends import backend_for
from pytest_gpuperf.measure.backends.base import Backend
from pytest_gpuperf.measure.errors import NoGpuWorkError
from pytest_gpuperf.measure.measure import measure
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.measure.warmup import WarmupPolicy
from pytest_gpuperf.settings import BenchmarkSettings

Inspect = Callable[..., Inspected]
AMPLE_S = 60.0
"""What is found is not to depend on how busy the machine is."""
QUICK = BenchmarkSettings(trials=20, warmup=5, max_time=0.05)
SHORT_WARMUP = WarmupPolicy(
    least_work_us=5_000.0, block_work_us=1_000.0, batch_trials=10, longest_us=50_000.0, tolerance=0.1
)
LEAST_TIMED_US = 2_000.0
"""A GPU takes a second to settle, which hundreds of cases cannot wait for; nothing small is told from these times."""


def run_inspected(
    backend: Backend,
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    *,
    allow: Sequence[str] = (),
    **stated: Any,
) -> Inspected:
    """Call, verify nothing, inspect before and after a short measurement."""
    subject = Subject(fn=fn, args=args, device=backend.device, **stated)
    inspection = Inspection(subject, allowed=allow, budget=Budget(AMPLE_S))
    expected = None
    if subject.reference is not None:
        inputs, named = subject.inputs()
        expected = subject.reference(*inputs, **named)
        inspection.reference_done()
    inputs, named = subject.inputs()
    inspection.first_call(fn(*inputs, **named), expected)
    inspection.before()
    plan = Plan(benchmark=BenchmarkId(node_id="test"), settings=QUICK, setup=subject.setup)
    call = fn if subject.setup is not None else (lambda: fn(*args, **subject.kwargs))
    try:
        with inspection.timing():
            measured = measure(call, plan, backend)
    except NoGpuWorkError as error:
        return Inspected(findings=(CheckFinding(check="refused", seen=str(error), why="", remedy=""),))
    return inspection.after(measured.record, measured.identity.timer)


def devices() -> list[str]:
    """The CPU, and the GPU where there is one."""
    try:
        import torch
    except ImportError:
        return ["cpu"]
    return ["cpu", "cuda:0"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(scope="session", params=devices())
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """What measures on each device in turn."""
    yield from hasty(backend_for(request.param))


def hasty(made: Any) -> Iterator[Backend]:
    """Yield a back end that does not wait until a GPU has settled, and close it."""
    if made.device != "cpu":
        made.warmup, made.least_timed_us = SHORT_WARMUP, LEAST_TIMED_US
    yield made
    made.close()


@pytest.fixture
def device(backend: Backend) -> str:
    """The device that is measured on."""
    return backend.device


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Keep torch's threads from waiting for one another on a busy machine."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def x(device: str) -> Any:
    """A matrix of random numbers, the same each time."""
    torch = pytest.importorskip("torch")
    return torch.randn(64, 128, generator=torch.Generator().manual_seed(0)).to(device)


@pytest.fixture
def on_cpu(device: str) -> None:
    """Leave out, on other devices, what is of the CPU only."""
    if device != "cpu":
        pytest.skip("of the CPU only")


@pytest.fixture
def inspected(backend: Backend, record_property: Callable[[str, object], None]) -> Inspect:
    """Return what inspects a callable on the device."""

    def run(fn: Callable[..., Any], *args: Any, **options: Any) -> Inspected:
        found = run_inspected(backend, fn, args, **options)
        record_property("check_seconds", found.seconds)
        return found

    return run


@pytest.fixture
def silent(inspected: Inspect) -> Callable[..., None]:
    """Return what asserts that the checks say nothing of a callable."""

    def check(fn: Callable[..., Any], *args: Any, **stated: Any) -> None:
        found = inspected(fn, *args, **stated)
        assert found.findings == ()
        assert found.notes == ()

    return check


@pytest.fixture
def lazy_softmax() -> Callable[[Any], Any]:
    """Return a function whose result computes itself when anything of torch is asked of it, and not before."""
    torch = pytest.importorskip("torch")

    class Lazy(torch.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            args = tuple(a.materialise() if isinstance(a, Lazy) else a for a in args)
            return func(*args, **(kwargs or {}))

        def materialise(self) -> Any:
            with torch._C.DisableTorchFunctionSubclass():
                if not hasattr(self, "value"):
                    self.value = torch.softmax(self.source, -1)
                return self.value

    def call(x: Any) -> Any:
        lazy = torch.Tensor._make_subclass(Lazy, torch.empty(0, device=x.device))
        lazy.source = x
        return lazy

    return call
