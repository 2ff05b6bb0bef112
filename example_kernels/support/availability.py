"""What can run here: Triton, its interpreter, a CUDA device, a CUDA compiler."""

from __future__ import annotations

import importlib.util
import os

import torch

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def has_triton() -> bool:
    """Whether Triton is installed; it is not imported."""
    return importlib.util.find_spec("triton") is not None


def interpreting() -> bool:
    """Whether Triton kernels are run by its interpreter, on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in {"1", "true", "on", "yes"}


def runs_triton(x: torch.Tensor) -> bool:
    """Whether the Triton kernels work on the dtype of `x` where it lies."""
    return x.dtype in KERNEL_DTYPES and x.is_cuda and torch.version.hip is None and has_triton()


def check_triton_device(x: torch.Tensor) -> None:
    """Raise ValueError unless Triton can reach `x`: a CUDA tensor, or a CPU tensor under the interpreter."""
    if not (x.is_cuda or interpreting()):
        raise ValueError(f"Triton kernels need CUDA tensors, got one on {x.device}")


ANYWHERE = ("torch", "unfused", "tiled", "compiled", "eager")
MEASURED_ON_CPU = ("torch", "unfused", "eager")


def why_unavailable(implementation: str, device: str) -> str | None:
    """Why an implementation of this name cannot run on `device`; None where it can.

    Builds nothing: a CUDA C++ kernel counts as available where there is a compiler.
    """
    from example_kernels.support.nvcc import find_nvcc

    if implementation in ANYWHERE:
        return None
    if not device.startswith("cuda"):
        return f"{implementation} needs a CUDA device"
    if implementation == "triton" and not has_triton():
        return "Triton is not installed"
    if implementation.startswith("cuda") and find_nvcc() is None:
        return "nvcc was not found"
    return None


def why_not_measured(implementation: str, device: str, on_cpu: bool = True) -> str | None:
    """Why a performance test leaves out this implementation; None where it is measured.

    On a CPU only torch's own operations are, and not where `on_cpu` is false: a short suite for a small machine.
    """
    if not device.startswith("cuda") and not (on_cpu and implementation in MEASURED_ON_CPU):
        return "measured on GPUs only"
    return why_unavailable(implementation, device)
