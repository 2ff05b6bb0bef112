"""The passes of functions that autograd differentiates, measured, compared and swept."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

# Runs inside this process forget what they import, and neither torch nor what it imports late can be imported twice.
torch = pytest.importorskip("torch")
torch.testing.assert_close(torch.ones(1), torch.ones(1))

PASSES = """
import pytest
import torch
from conftest import backend

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        backend.clock.advance_us(100.0)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        backend.clock.advance_us(300.0)
        return FACTOR * x * gradient

FACTOR = 2
"""


@pytest.mark.parametrize("options", [(), ("--gpuperf",)])
def test_forward_backward_and_both(new_suite: Any, options: tuple[str, ...]) -> None:
    new_suite.write(
        "test_suite.py",
        PASSES
        + textwrap.dedent(
            """
            @pytest.mark.parametrize(("mode", "time_us"), [("forward", 100.0), ("backward", 300.0), ("both", 400.0)])
            def test_square(gpubench, mode, time_us):
                x = torch.randn(64, requires_grad=True)
                y = gpubench.run(Square.apply, (x,), reference=torch.square, mode=mode)
                torch.testing.assert_close(y, x * x)
                assert x.grad is None
                if gpubench.result is not None:
                    assert gpubench.result.mean_us == pytest.approx(time_us, rel=0.02)
            """
        ),
    )
    new_suite.run(*options).assert_outcomes(passed=3)


@pytest.mark.parametrize("mode", ["backward", "both"])
def test_a_wrong_gradient_is_found(new_suite: Any, mode: str) -> None:
    new_suite.write(
        "test_suite.py",
        PASSES.replace("FACTOR = 2", "FACTOR = 3")
        + textwrap.dedent(
            f"""
            def test_square(gpubench):
                x = torch.randn(64, requires_grad=True)
                gpubench.run(Square.apply, (x,), reference=torch.square, mode="{mode}")
            """
        ),
    )
    result = new_suite.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([r"E *gradients[[]0[]] differs from the reference's*"])


def test_passes_are_compared_and_swept(new_suite: Any) -> None:
    new_suite.write(
        "test_suite.py",
        PASSES
        + textwrap.dedent(
            """
            def test_compare(gpubench):
                x = torch.randn(64, requires_grad=True)
                functions = {"ours": Square.apply, "twice": lambda x: Square.apply(x) + Square.apply(x) * 0}
                comparison = gpubench.compare(functions, (x,), mode="backward")
                assert comparison.ratio("twice", to="ours").ratio == pytest.approx(2.0, rel=0.02)

            def test_sweep(gpubench):
                inputs = lambda n: (Square.apply, (torch.randn(n, requires_grad=True),))
                sweep = gpubench.sweep(inputs, [8, 16, 32], mode="both")
                sweep.assert_scaling(0.0)
            """
        ),
    )
    new_suite.run("--gpuperf", "--gpuperf-json=figures.json").assert_outcomes(passed=2)
    identities = [outcome["identity"] for outcome in new_suite.json("figures.json")["outcomes"]]
    workloads = [identity["workload"]["arguments"] for identity in identities]
    assert workloads[0].startswith("backward of ")
    assert workloads[2:] == [f"both of float32[{size}]@cpu" for size in (8, 16, 32)]
