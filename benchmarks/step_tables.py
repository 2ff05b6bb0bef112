"""What is made of a training step's kernels: the share of its products, what the GPU idles, and a table as text.

Nothing here needs a GPU, or torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tabulate import tabulate

PRODUCTS = re.compile(r"gemm|gemv|nvjet|cutlass|splitk", re.IGNORECASE)
"""How the libraries call the kernels that multiply matrices, and that add up the parts of a product."""
NOTE = (
    "A step is forward, loss, backward and AdamW. By the wall clock: median of rounds of steps that nothing waits "
    "for but `.item()`, where it is read. On the GPU: the sum of its kernels by the profiler, in a step of its own."
)


@dataclass(frozen=True)
class Kernel:
    """A kernel of a step: how often it ran, and how long in all."""

    name: str
    count: int
    duration_us: float

    @property
    def is_product(self) -> bool:
        """Whether it multiplies matrices."""
        return PRODUCTS.search(self.name) is not None


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One kind of step: how long by the wall clock, and its kernels."""

    model: str
    implementation: str
    item: bool
    wall_us: float
    kernels: tuple[Kernel, ...]

    @property
    def gpu_us(self) -> float:
        """How long the kernels run."""
        return sum(kernel.duration_us for kernel in self.kernels)

    @property
    def products_share(self) -> float:
        """The share of the kernels' time that is in products of matrices."""
        return sum(kernel.duration_us for kernel in self.kernels if kernel.is_product) / self.gpu_us

    @property
    def idle_share(self) -> float:
        """The share of the step in which the GPU has nothing to do; 0 where kernels overlap each other."""
        return max(0.0, 1 - self.gpu_us / self.wall_us)

    def cells(self) -> dict[str, str]:
        """Return the row as text by column."""
        return {
            "model": self.model,
            "implementation": self.implementation,
            "loss read": "every step" if self.item else "never",
            "step, us": f"{self.wall_us:.0f}",
            "kernels": str(sum(kernel.count for kernel in self.kernels)),
            "on the GPU, us": f"{self.gpu_us:.0f}",
            "of that products": f"{self.products_share:.0%}",
            "GPU idle": f"{self.idle_share:.0%}",
        }


def longest(row: StepRow, count: int) -> str:
    """Return the table of the kernels that a step spends most time in."""
    kernels = sorted(row.kernels, key=lambda kernel: kernel.duration_us, reverse=True)[:count]
    cells = [
        {"kernel": _short(k.name), "calls": str(k.count), "share": f"{k.duration_us / row.gpu_us:.1%}"} for k in kernels
    ]
    return tabulate(cells, headers="keys", tablefmt="github", disable_numparse=True)


def _short(name: str) -> str:
    return name.replace("|", "/")[:80]


def markdown(facts: Mapping[str, str], rows: Sequence[StepRow], count: int = 8) -> str:
    """Return all steps, and the longest kernels of the first one of every model."""
    head = ", ".join(f"{key} {value}" for key, value in facts.items())
    table = tabulate([row.cells() for row in rows], headers="keys", tablefmt="github", disable_numparse=True)
    firsts = {row.model: row for row in reversed(rows)}
    parts = [f"# Training steps, measured\n\n{head}\n\n{NOTE}\n\n{table}\n"]
    for model in dict.fromkeys(row.model for row in rows):
        row = firsts[model]
        parts.append(f"## Longest kernels: {model}, {row.implementation}\n\n{longest(row, count)}\n")
    return "\n".join(parts)
