"""Waits and copies on a scripted torch, whose tensors warn as real ones do on a GPU."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from pytest_gpuperf.checks.waits import IN_THE_CALLABLE, cuda_waits

SOURCE = """
import warnings
from types import SimpleNamespace


class Tensor:
    def __init__(self, device="cuda", pinned=False):
        self.device = SimpleNamespace(type=device)
        self._pinned = pinned

    def is_pinned(self):
        return self._pinned

    def numel(self):
        return 1024

    def element_size(self):
        return 4

    def item(self):
        report()
        return 1.0

    def show(self):
        for _ in range(30):
            report()

    def to(self, device, non_blocking=False):
        return Tensor(device)

    def copy_(self, source, non_blocking=False):
        return self


class Cuda:
    class Event:
        def synchronize(self):
            return "event"

    class Stream:
        def synchronize(self):
            return "stream"

    mode = 0

    def get_sync_debug_mode(self):
        return self.mode

    def set_sync_debug_mode(self, mode):
        warnings.warn("Synchronization debug mode is a prototype feature")
        self.mode = mode

    def synchronize(self):
        return "device"


cuda = Cuda()


def report():
    if cuda.mode == "warn":
        warnings.warn("called a synchronizing CUDA operation (Triggered internally)")


def tensor(data, device="cpu"):
    return Tensor(device)
"""
LIBRARY: dict = {}
# Code of no file of its own counts as a library's, as torch's does.
exec(compile(SOURCE, "<torch>", "exec"), LIBRARY)
Tensor, Cuda = LIBRARY["Tensor"], LIBRARY["Cuda"]
torch = SimpleNamespace(cuda=LIBRARY["cuda"], Tensor=Tensor, tensor=LIBRARY["tensor"], accelerator=SimpleNamespace())


def helper(tensor):
    return tensor.item()


def test_each_line_is_named_once_also_in_called_functions():
    def step():
        helper(Tensor())
        Tensor().show()

    found = cuda_waits(torch, step).waits
    assert len(found) == 2
    (first, once), (second, thirty) = found.items()
    assert "in helper `return tensor.item()`" in first
    assert "test_waits.py" in first
    assert (once, thirty) == (1, 30)
    assert "Tensor().show()" in second


@pytest.mark.parametrize(
    "wait",
    [
        lambda: torch.cuda.synchronize(),
        lambda: torch.cuda.Event().synchronize(),
        lambda: torch.cuda.Stream().synchronize(),
    ],
    ids=["device", "event", "stream"],
)
def test_waits_on_purpose_are_named(wait):
    (place,) = cuda_waits(torch, wait).waits
    assert "synchronize()" in place


def test_a_function_of_torchs_own_is_named_as_the_callable():
    assert list(cuda_waits(torch, Tensor().item).waits) == [IN_THE_CALLABLE]


def test_other_warnings_are_none_of_ours():
    assert cuda_waits(torch, lambda: warnings.warn("something else", stacklevel=1)).waits == {}


def test_copies_from_pageable_memory_are_named_with_their_size():
    def step():
        Tensor("cpu").to("cuda")
        Tensor("cpu", pinned=True).to("cuda")
        Tensor("cuda").to("cuda")
        Tensor("cuda").copy_(Tensor("cpu"))
        torch.tensor([1, 2], device="cuda")
        torch.tensor([1, 2])

    found = cuda_waits(torch, step).pageable
    assert len(found) == 3
    assert set(found.values()) == {4096}


def test_everything_is_as_it_was_afterwards():
    before = vars(Tensor).copy(), torch.tensor, Cuda.Event.synchronize, warnings.showwarning

    def failing():
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        cuda_waits(torch, failing)
    assert (vars(Tensor).copy(), torch.tensor, Cuda.Event.synchronize, warnings.showwarning) == before
    assert torch.cuda.mode == 0
    assert "synchronize" not in vars(torch.cuda)
