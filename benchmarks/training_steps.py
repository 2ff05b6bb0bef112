"""Measure training steps as a whole: what a step takes, what of it the GPU works, and what of that is in products.

    python benchmarks/training_steps.py [--output benchmarks/results/training_steps]

Steps of a deep MLP, narrow and wide batches, and of a decoder block; eager and compiled; with the loss read or not.
Writes OUTPUT.json and OUTPUT.md, again after every kind of step.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from early_end import UNDECIDED, EndedEarly
from kernels import environment
from records import write_whole
from step_tables import Kernel, StepRow, markdown

from example_kernels.training_step import IMPLEMENTATIONS, DecoderBlock, Mlp, Step

WARM_UP_STEPS, ROUNDS, STEPS_A_ROUND = 5, 7, 10
MLP_WIDTH, DECODER_WIDTH, DECODER_HEADS = 1024, 1024, 16
Inputs = tuple[torch.nn.Module, torch.Tensor, torch.Tensor]


def mlp(rows: int) -> Callable[[], Inputs]:
    """Return what makes the MLP of 16 layers, and a batch of so many rows with its targets."""

    def make() -> Inputs:
        x, target = (torch.randn(rows, MLP_WIDTH, device="cuda") for _ in range(2))
        return Mlp(MLP_WIDTH).cuda(), x, target

    return make


def decoder() -> Inputs:
    """Return a decoder block in bfloat16, and a batch of four sequences of 2048."""
    shape = (4, 2048, DECODER_WIDTH)
    x, target = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return DecoderBlock(DECODER_WIDTH, DECODER_HEADS).to("cuda", torch.bfloat16), x, target


MODELS: dict[str, Callable[[], Inputs]] = {
    "MLP, 16 layers of 1024, 256 rows, float32": mlp(256),
    "MLP, 16 layers of 1024, 16384 rows, float32": mlp(16384),
    "decoder block of 1024, 4×2048 tokens, bfloat16": decoder,
}


def measured(model: str, implementation: str, item: bool) -> StepRow:
    """Return one kind of step, measured."""
    torch.manual_seed(0)
    module, x, target = MODELS[model]()
    step = IMPLEMENTATIONS[implementation](module, item=item)
    for _ in range(WARM_UP_STEPS):
        step(x, target)
    wall_us = statistics.median(_round_us(step, x, target) for _ in range(ROUNDS))
    kernels = _kernels(step, x, target)
    return StepRow(model=model, implementation=implementation, item=item, wall_us=wall_us, kernels=kernels)


def _round_us(step: Step, x: torch.Tensor, target: torch.Tensor) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS_A_ROUND):
        step(x, target)
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - start) / STEPS_A_ROUND


def _kernels(step: Step, x: torch.Tensor, target: torch.Tensor) -> tuple[Kernel, ...]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step(x, target)
        torch.cuda.synchronize()
    events = [event for event in profile.key_averages() if event.self_device_time_total > 0]
    return tuple(Kernel(event.key, event.count, event.self_device_time_total) for event in events)


def write(output: Path, facts: dict[str, str], rows: Sequence[StepRow]) -> str:
    """Write figures and tables; return the tables."""
    text = markdown(facts, rows)
    figures = {"environment": facts, "rows": [dataclasses.asdict(row) for row in rows]}
    write_whole(json.dumps(figures, indent=1) + "\n", output.with_suffix(".json"))
    write_whole(text, output.with_suffix(".md"))
    return text


def main() -> int:
    """Measure kind after kind; return 1 where one could not be measured, 3 where it was ended early."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "training_steps")
    arguments = parser.parse_args()
    facts, rows, text, failed = environment(), [], "", 0
    with EndedEarly() as ended_early:
        for kind in ((m, name, item) for m in MODELS for name in IMPLEMENTATIONS for item in (False, True)):
            try:
                rows.append(measured(*kind))
            except Exception as error:
                print(f"{kind}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                failed += 1
                continue
            torch.compiler.reset()
            torch.cuda.empty_cache()
            text = write(arguments.output, facts, rows)
    print(text)
    return UNDECIDED if ended_early else min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
