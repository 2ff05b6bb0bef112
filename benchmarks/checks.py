"""How many tricks the checks catch, how many honest callables they accuse, and what they cost.

    python benchmarks/checks.py [pytest arguments]

Runs the gallery (tests/checks, and tests/gpu/test_checks.py where there is a GPU), counts its cases by device, and
prints the time that the checks of one benchmark took. On a GPU it also measures what one `.item()` costs a training
step.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
GALLERY = ("tests/checks/test_tricks.py", "tests/checks/test_honest.py", "tests/gpu/test_checks.py")
HONEST = ("honest", "are_not", "reused", "kernel_list")
"""What the honest cases of the GPU's own file have in their names."""


class Counts:
    """Counts the gallery's cases: (tricks or honest, device) and whether they went as they should."""

    def __init__(self) -> None:
        self.passed: Counter[tuple[str, str]] = Counter()
        self.all: Counter[tuple[str, str]] = Counter()
        self.check_seconds: dict[str, list[float]] = {}
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a case."""
        if report.when != "call" or report.skipped:
            return
        device = "GPU" if "tests/gpu" in report.nodeid or "[cuda:0" in report.nodeid else "CPU"
        of_gpu_only = "tests/gpu" in report.nodeid
        honest = "test_honest.py" in report.nodeid or (of_gpu_only and any(word in report.nodeid for word in HONEST))
        key = ("honest callables left alone" if honest else "tricks caught", device)
        self.all[key] += 1
        self.passed[key] += report.passed
        if report.failed:
            self.failed.append(f"{report.nodeid}\n{report.longreprtext[-1500:]}")
        seconds = [float(value) for name, value in report.user_properties if name == "check_seconds"]
        self.check_seconds.setdefault(device, []).extend(seconds)


def main(arguments: list[str]) -> int:
    """Run the gallery and print the counts."""
    counts = Counts()
    paths = [str(ROOT / path) for path in GALLERY]
    code = pytest.main(["-q", "--no-header", "--tb=no", "-p", "no:randomly", *paths, *arguments], plugins=[counts])
    for text in counts.failed:
        print(text)
    for key in sorted(counts.all):
        print(f"{key[1]}: {key[0]}: {counts.passed[key]} of {counts.all[key]}")
    for device, seconds in sorted(counts.check_seconds.items()):
        if seconds:
            middle = sorted(seconds)[len(seconds) // 2]
            print(f"{device}: checks of one benchmark: median {middle:.3f} s, longest {max(seconds):.3f} s")
    import torch

    if torch.cuda.is_available():
        item_cost(torch)
    return int(code)


def item_cost(torch: Any) -> None:
    """Time a training step with and without reading the loss, by the wall clock, in turn."""
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(16))).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(256, 1024, device="cuda")

    def step() -> Any:
        optimiser.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    def per_step_us(read: bool, steps: int = 100) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            loss = step()
            if read:
                loss.item()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / steps * 1e6

    per_step_us(False)
    pairs = [(per_step_us(False), per_step_us(True)) for _ in range(7)]
    without, reading = (sorted(times)[3] for times in zip(*pairs, strict=True))
    print(f"16-layer step: {without:.0f} us, with loss.item(): {reading:.0f} us ({reading / without - 1:+.1%})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
