"""Poison in memory that nobody writes, as on a GPU, with the tensors on the CPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_gpuperf.checks.memory import POISON_BYTE, filling, is_made_of, runs_compiled

torch = pytest.importorskip("torch")


@pytest.fixture
def x():
    return torch.randn(64, 64, generator=torch.Generator().manual_seed(0))


def test_what_is_asked_for_after_temporaries_poisoned_on_a_gpu_too(x):
    with filling(POISON_BYTE, (x,), torch, on_gpu=True):
        (x @ x).exp()  # an allocator may hand its memory out again
        outputs = torch.empty_like(x), torch.empty(3, 5), x.new_empty(7), torch.empty_strided((4, 4), (4, 1))
    assert all(bool(is_made_of(POISON_BYTE, output, torch).all()) for output in outputs)


def test_what_is_written_is_left_alone(x):
    expected = torch.softmax(x, -1)
    with filling(POISON_BYTE, (x,), torch, on_gpu=True):
        output = torch.empty_like(x)
        torch.softmax(x, -1, out=output)
        summed = torch.zeros(4).add_(1.0)
    assert torch.equal(output, expected)
    assert torch.equal(summed, torch.ones(4))


def test_what_is_compiled_is_not_called_under_a_dispatch_mode(x):
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    with filling(POISON_BYTE, (x,), torch, on_gpu=True, in_dispatcher=False):
        assert _get_current_dispatch_mode() is None
    with filling(POISON_BYTE, (x,), torch, on_gpu=True):
        assert _get_current_dispatch_mode() is not None


@pytest.mark.parametrize("capturing", [False, True])
def test_nothing_is_filled_in_a_stream_capture(x, capturing, monkeypatch):
    waits = []
    stream = SimpleNamespace(synchronize=lambda: waits.append("stream"))
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    with filling(POISON_BYTE, (), torch, on_gpu=True):
        output = torch.empty(1000).copy_(x.reshape(-1)[:1000]) if capturing else torch.empty(1000)
    assert bool(is_made_of(POISON_BYTE, output, torch).all()) is not capturing
    assert waits == ([] if capturing else ["stream"])


def test_compiled_callables_are_told_by_themselves_or_by_their_kernels():
    compiled = torch.compile(torch.exp, backend="eager")
    assert runs_compiled(compiled, [])
    assert runs_compiled(torch.compile(torch.nn.Linear(2, 2), backend="eager"), [])
    assert runs_compiled(torch.exp, ["elementwise", "triton_poi_fused_add_gelu_0"])
    assert not runs_compiled(torch.exp, ["softmax_kernel_triton", "elementwise", "triton_"])
