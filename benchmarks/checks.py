"""How many tricks the checks catch, how many honest callables they accuse, and what they cost.

    python benchmarks/checks.py [pytest arguments]

Runs the gallery (tests/checks, and tests/gpu/test_checks.py where there is a GPU), counts its cases by device, and
prints the time that the checks of one benchmark took, and how many took longer than the half second that is promised.
The gallery's budget is ample, so that a busy machine leaves nothing out; that of tests/gpu is the real one. On a GPU it
also measures what one `.item()` costs the training step of the examples.

A case that fails is named at once, with its reason in a line; the ends of their tracebacks come last. Where a time
limit (SIGTERM) or Ctrl-C ends it, the counts so far are printed.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from early_end import UNDECIDED, EndedEarly

ROOT = Path(__file__).parents[1]
GALLERY = (
    "tests/checks/test_tricks.py",
    "tests/checks/test_tricks_that_dodge.py",
    "tests/checks/test_tricks_of_memory.py",
    "tests/checks/test_tricks_of_arguments.py",
    "tests/checks/test_tricks_in_hiding.py",
    "tests/checks/test_tricks_by_turns.py",
    "tests/checks/test_tricks_of_storage.py",
    "tests/checks/test_honest.py",
    "tests/checks/test_honest_variety.py",
    "tests/checks/test_honest_constants.py",
    "tests/checks/test_honest_outputs.py",
    "tests/checks/test_honest_compiled.py",
    "tests/checks/test_honest_origins.py",
    "tests/checks/test_honest_turns.py",
    "tests/checks/test_honest_state.py",
    "tests/checks/test_honest_chance.py",
    "tests/checks/test_honest_training.py",
    "tests/checks/test_honest_models.py",
    "tests/checks/test_training_step.py",
    "tests/gpu/test_checks.py",
)
LONGEST_S = 0.5
STEP_WIDTH, STEP_ROWS, STEP_LAYERS = 1024, 256, 16
STEPS, PAIRS = 100, 7
HONEST = ("honest", "are_not", "reused", "kernel_list", "left_alone")
"""What the honest cases of files that hold both have in their names."""


REASON_CHARACTERS = 300


class Counts:
    """Counts the gallery's cases: (tricks or honest, device) and whether they went as they should."""

    def __init__(self) -> None:
        self.passed: Counter[tuple[str, str]] = Counter()
        self.all: Counter[tuple[str, str]] = Counter()
        self.check_seconds: dict[str, list[float]] = {}
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a case, and tell at once of one that failed, in its preparation or its end too."""
        if report.failed:
            self._tell(report)
        if report.skipped or report.when == "teardown" or (report.when == "setup" and report.passed):
            return
        device = "GPU" if "tests/gpu" in report.nodeid or "[cuda:0" in report.nodeid else "CPU"
        honest = any(word in report.nodeid for word in HONEST) and "test_tricks" not in report.nodeid
        key = ("honest callables left alone" if honest else "tricks caught", device)
        self.all[key] += 1
        self.passed[key] += report.passed
        seconds = [float(value) for name, value in report.user_properties if name == "check_seconds"]
        self.check_seconds.setdefault(device, []).extend(seconds)

    def _tell(self, report: pytest.TestReport) -> None:
        self.failed.append(f"{report.nodeid}\n{report.longreprtext[-1500:]}")
        print(f"\nFAILED {report.nodeid}{_where(report)}: {_reason(report)}", flush=True)

    def told(self) -> str:
        """Return the counts, and how long the checks of one benchmark took."""
        lines = [f"{key[1]}: {key[0]}: {self.passed[key]} of {self.all[key]}" for key in sorted(self.all)]
        for device, seconds in sorted(self.check_seconds.items()):
            if seconds:
                middle = sorted(seconds)[len(seconds) // 2]
                over = sum(one > LONGEST_S for one in seconds)
                lines.append(
                    f"{device}: checks of one benchmark: median {middle:.3f} s, longest {max(seconds):.3f} s, "
                    f"{over} of {len(seconds)} over {LONGEST_S} s"
                )
        return "\n".join(lines)


def _where(report: pytest.TestReport) -> str:
    return "" if report.when == "call" else f" ({report.when})"


def _reason(report: pytest.TestReport) -> str:
    """Return in one line why a case failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines)[:REASON_CHARACTERS] or "no reason given"


def main(arguments: list[str]) -> int:
    """Run the gallery and print the counts."""
    counts = Counts()
    paths = [str(ROOT / path) for path in GALLERY]
    with EndedEarly() as ended_early:
        options = ["-q", "--no-header", "--tb=no", "-p", "no:randomly"]
        code = pytest.main([*options, *paths, *arguments], plugins=[counts])
    for text in counts.failed:
        print(text)
    print(counts.told(), flush=True)
    if ended_early or code == pytest.ExitCode.INTERRUPTED:
        return UNDECIDED
    import torch

    if torch.cuda.is_available():
        item_cost(torch)
    return int(code)


def item_cost(torch: Any) -> None:
    """Time the example's training step with and without reading the loss, by the wall clock, in turn."""
    from example_kernels.training_step import Mlp, eager_step

    torch.manual_seed(0)
    model = Mlp(STEP_WIDTH, STEP_LAYERS).cuda()
    x, target = (torch.randn(STEP_ROWS, STEP_WIDTH, device="cuda") for _ in range(2))
    steps = {item: eager_step(model, item=item) for item in (False, True)}

    def per_step_us(item: bool) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            steps[item](x, target)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / STEPS * 1e6

    for item in steps:
        per_step_us(item)
    pairs = [(per_step_us(False), per_step_us(True)) for _ in range(PAIRS)]
    without, reading = (sorted(times)[PAIRS // 2] for times in zip(*pairs, strict=True))
    print(
        f"{torch.cuda.get_device_name()}: training step (MLP, {STEP_LAYERS} layers of {STEP_WIDTH}, {STEP_ROWS} rows): "
        f"{without:.0f} us, with loss.item(): {reading:.0f} us ({reading / without - 1:+.1%})"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
