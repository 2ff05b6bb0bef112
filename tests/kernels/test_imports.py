"""The example kernels can be imported where neither CUDA nor Triton is, and cheaply."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from example_kernels import gelu
from example_kernels.support import availability, nvcc

OPERATIONS = ("gelu", "softmax", "attention")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, example_kernels; print([m for m in ('torch', 'triton', 'numpy') if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["cuda", "cuda_scalar"])
def test_cuda_kernels_refuse_cpu_tensors_before_they_are_built(name, monkeypatch):
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    with pytest.raises(ValueError, match="need CUDA tensors, got one on cpu"):
        gelu.IMPLEMENTATIONS[name](torch.ones(3))


def test_why_an_implementation_is_skipped_is_said(monkeypatch):
    assert availability.why_unavailable("torch", "cpu") is None
    assert availability.why_unavailable("cuda", "cpu") == "cuda needs a CUDA device"
    monkeypatch.setattr(nvcc, "find_nvcc", lambda: None)
    assert availability.why_unavailable("cuda_scalar", "cuda:0") == "nvcc was not found"
    monkeypatch.setattr(availability, "has_triton", lambda: False)
    assert availability.why_unavailable("triton", "cuda:0") == "Triton is not installed"
    assert availability.why_unavailable("cudnn", "cuda") is None


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_works_without_triton(operation):
    code = (
        "import sys; sys.modules['triton'] = None\n"
        f"from example_kernels.{operation} import {operation}, IMPLEMENTATIONS\n"
        "import torch\n"
        "x = torch.randn(1, 2, 8, 4)\n"
        f"arguments = (x, x, x) if '{operation}' == 'attention' else (x,)\n"
        f"assert {operation}(*arguments).shape == x.shape\n"
        "try:\n"
        "    IMPLEMENTATIONS['triton'](*arguments)\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert "triton" in done.stdout
