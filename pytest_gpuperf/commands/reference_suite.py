"""Reference benchmarks that the doctor runs in fresh processes: code that nobody changes."""

from __future__ import annotations

import hashlib
from typing import Any

WORDS = 64 << 20
ROWS = 4096


def test_python_loop(gpubench: Any) -> None:
    """Bytecode, on the CPU only: the GPU's own references are below."""
    if gpubench.device == "cpu":
        gpubench(sum, range(20_000))


def test_sort(gpubench: Any) -> None:
    """Comparisons and memory within the caches, on the CPU only."""
    if gpubench.device == "cpu":
        numbers = [number * 7919 % 10_007 for number in range(10_000)]
        gpubench(sorted, numbers)


def test_hash(gpubench: Any) -> None:
    """Arithmetic in C, on the CPU only."""
    if gpubench.device == "cpu":
        gpubench(hashlib.sha256, b"x" * 100_000)


def test_copy(gpubench: Any) -> None:
    """Memory bandwidth of a GPU."""
    if gpubench.device != "cpu":
        import torch

        source = torch.rand(WORDS, device=gpubench.device)
        gpubench(torch.clone, source)


def test_softmax(gpubench: Any) -> None:
    """A short kernel that is bound by memory."""
    if gpubench.device != "cpu":
        import torch

        gpubench(torch.softmax, torch.randn(ROWS, ROWS, device=gpubench.device), -1)


def test_matmul(gpubench: Any) -> None:
    """Tensor cores, whose clock wanders."""
    if gpubench.device != "cpu":
        import torch

        a = torch.randn(ROWS, ROWS, device=gpubench.device, dtype=torch.bfloat16)
        gpubench(torch.matmul, a, a)
