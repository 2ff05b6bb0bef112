"""What a benchmark of these suites finds on the device: sizes that fit it, and the neighbour it is told to have."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NEIGHBOUR_FILE = "GPUPERF_SUITE_NEIGHBOUR_FILE"
"""Environment variable: a file that says, at any moment, what the device does before the next benchmark."""
SLOWER = "GPUPERF_SUITE_SLOWER"
"""Environment variable such as `gelu_64m=0.03,matmul_4k=0.03`: the share of work that these do in excess."""
NEIGHBOUR_SECONDS = 0.6


@dataclass(frozen=True)
class Place:
    """Where a benchmark's tensors go, how big they are, and how much extra work is asked for."""

    torch: Any
    device: str

    @property
    def on_gpu(self) -> bool:
        """Whether this is a GPU, so that sizes are the full ones."""
        return self.device.startswith("cuda")

    def size(self, gpu: int, cpu: int) -> int:
        """Return the size for this device."""
        return gpu if self.on_gpu else cpu

    def slowed(self, name: str, count: int, step: int = 1) -> int:
        """Return `count` and the share of extra work that the benchmark is to do, in whole steps."""
        return round(count * (1 + extra_work().get(name, 0.0)) / step) * step

    def randn(self, *shape: int, dtype: str = "bfloat16") -> Any:
        """Return random numbers; a CPU gets float32, which it computes with."""
        kind = getattr(self.torch, dtype if self.on_gpu else "float32")
        return self.torch.randn(*shape, device=self.device, dtype=kind)


def extra_work() -> dict[str, float]:
    """Return the share of extra work by benchmark."""
    pairs = [pair.partition("=") for pair in os.environ.get(SLOWER, "").split(",") if pair]
    return {name: float(share) for name, _, share in pairs}


@pytest.fixture(autouse=True)
def neighbour(request: pytest.FixtureRequest) -> None:
    """Keep the device busy, or leave it idle, just before the benchmark."""
    told = os.environ.get(NEIGHBOUR_FILE)
    kind = Path(told).read_text(encoding="utf-8").strip() if told else ""
    if kind == "idle":
        time.sleep(NEIGHBOUR_SECONDS)
    elif kind == "heavy":
        _keep_busy(request.getfixturevalue("gpubench").device)


def _keep_busy(device: str) -> None:
    import torch

    size = 8192 if device.startswith("cuda") else 256
    kind = torch.bfloat16 if device.startswith("cuda") else torch.float32
    x = torch.randn(size, size, device=device, dtype=kind)
    until = time.monotonic() + NEIGHBOUR_SECONDS
    while time.monotonic() < until:
        for _ in range(20):
            x @ x
        if device.startswith("cuda"):
            torch.cuda.synchronize()


@pytest.fixture
def place(gpubench: Any) -> Place:
    """The measured device."""
    import torch

    found = Place(torch, gpubench.device)
    if not found.on_gpu:
        # Threads that wait for each other measure the machine's other load more than the call.
        torch.set_num_threads(1)
    return found
