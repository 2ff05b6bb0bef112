"""Settings of the whole process: what a call leaves changed is told, what it puts back is its own affair."""

from __future__ import annotations

import gc

import pytest

from pytest_gpuperf.checks.state import process_state

torch = pytest.importorskip("torch")

CHANGES = {
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "the default device": lambda: torch.set_default_device("meta"),
    "the number of threads": lambda: torch.set_num_threads(3),
    "the recording of gradients": lambda: torch.autograd.grad_mode.set_grad_enabled(False) and None,
    "the mode of deterministic algorithms": lambda: torch.set_deterministic_debug_mode(1),
    "the precision of fp32 matmuls": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "cuDNN's benchmark mode": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "garbage collection": gc.disable,
}


@pytest.fixture(autouse=True)
def _put_back():
    dtype, device, threads = torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads()
    precision = torch.backends.cuda.matmul.fp32_precision
    yield
    torch.set_default_dtype(dtype)
    torch.set_default_device(None if device.type == "cpu" else device)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(True)
    torch.set_deterministic_debug_mode(0)
    torch.backends.cuda.matmul.fp32_precision = precision
    torch.backends.cudnn.benchmark = False
    gc.enable()


def softmax(x):
    return torch.softmax(x, -1)


def test_every_setting_that_is_looked_at_is_tried():
    assert process_state(torch).keys() == CHANGES.keys()


@pytest.mark.parametrize("what", CHANGES)
def test_a_setting_that_is_left_changed(inspected, x, what):
    before = process_state(torch)[what]

    def careless(x):
        result = softmax(x)
        CHANGES[what]()
        return result

    seen = [finding.seen for finding in inspected(careless, x).findings if finding.check == "state"]
    assert seen == [f"{what} was {before} before a call and is {process_state(torch)[what]} after it"]
    assert process_state(torch)[what] != before


@pytest.mark.parametrize("what", CHANGES)
def test_settings_that_were_so_before_are_nobodys_doing(inspected, x, what):
    CHANGES[what]()
    assert "state" not in {finding.check for finding in inspected(softmax, x).findings}


def test_what_the_reference_changes_is_not_the_callables_doing(inspected, x):
    def careless_reference(x):
        torch.set_num_threads(torch.get_num_threads() + 1)
        return softmax(x)

    assert inspected(softmax, x, reference=careless_reference).findings == ()


def test_what_is_put_back_is_not_told(inspected, x):
    def careful(x):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.no_grad():
                return softmax(x)
        finally:
            torch.set_num_threads(threads)

    assert inspected(careful, x).findings == ()


def test_it_can_be_allowed_and_does_without_tensors(inspected):
    assert inspected(gc.disable, allow=("state",)).findings == ()
    gc.enable()
    assert [finding.check for finding in inspected(gc.disable).findings] == ["state"]
