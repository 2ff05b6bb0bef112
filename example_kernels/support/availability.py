"""What can run here: Triton, its interpreter, a CUDA device, a CUDA compiler."""

from __future__ import annotations

import importlib.util
import os

import torch


def has_triton() -> bool:
    """Whether Triton is installed; it is not imported."""
    return importlib.util.find_spec("triton") is not None


def interpreting() -> bool:
    """Whether Triton kernels are run by its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in {"1", "true", "on", "yes"}


def runs_triton(x: torch.Tensor) -> bool:
    """Whether a Triton kernel can work on `x` where it lies."""
    return x.is_cuda and torch.version.hip is None and has_triton()


def check_triton_device(x: torch.Tensor) -> None:
    """Raise ValueError unless Triton can reach `x`: a CUDA tensor, or a CPU tensor under the interpreter."""
    if not (x.is_cuda or interpreting()):
        raise ValueError(f"Triton kernels need CUDA tensors, got one on {x.device}")


def why_unavailable(implementation: str, device: str) -> str | None:
    """Why an implementation of this name cannot run on `device`; None where it can.

    Builds nothing: a CUDA C++ kernel counts as available where there is a compiler.
    """
    from example_kernels.support.nvcc import find_nvcc

    if implementation in {"torch", "unfused", "compiled", "naive", "tiled"}:
        return None
    if not device.startswith("cuda"):
        return f"{implementation} needs a CUDA device"
    if implementation == "triton" and not has_triton():
        return "Triton is not installed"
    if implementation == "cuda" and find_nvcc() is None:
        return "nvcc was not found"
    return None
