"""The example kernels can be imported where neither CUDA nor Triton is, and cheaply."""

from __future__ import annotations

import subprocess
import sys

import pytest

OPERATIONS = ("gelu", "softmax", "attention")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, example_kernels; print([m for m in ('torch', 'triton', 'numpy') if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


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
