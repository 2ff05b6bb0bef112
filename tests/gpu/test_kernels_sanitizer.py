"""compute-sanitizer finds no access outside memory in any kernel, at sizes off every tile."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
SANITIZER = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
# Only now: importing triton settles whether kernels are interpreted, which tests/kernels must decide without a GPU.
pytest.importorskip("triton")
if not Path(SANITIZER).exists():
    pytest.skip("compute-sanitizer was not found", allow_module_level=True)

PROGRAMS = {
    "gelu": """
for name in ("triton", "cuda", "cuda_scalar"):
    for n in (1, 1023, 4099):
        x = torch.randn(n, device="cuda", dtype=torch.float16, requires_grad=True)
        for approximate in ("none", "tanh"):
            gelu.IMPLEMENTATIONS[name](x, approximate).sum().backward()
""",
    "softmax": """
for shape in ((5, 3), (3, 1000), (2, 33000)):
    x = torch.randn(shape, device="cuda", requires_grad=True)
    softmax.IMPLEMENTATIONS["triton"](x).sum().backward()
for strategy in ("online", "split"):
    softmax.with_triton.softmax_rows(x.detach(), torch.empty_like(x), strategy)
softmax.IMPLEMENTATIONS["triton"](x.detach(), 0)
""",
    "attention": """
for head_dim in (40, 64, 80, 128, 200, 256):
    for causal in (False, True):
        q, k, v = (torch.randn(1, h, n, head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                   for h, n in ((2, 130), (1, 77), (1, 77)))
        attention.IMPLEMENTATIONS["triton"](q, k, v, causal=causal).sum().backward()
for head_dim, dtype in ((33, torch.float32), (64, torch.float32), (128, torch.float32), (33, torch.float16)):
    q = torch.randn(1, 2, 70, head_dim, device="cuda", dtype=dtype, requires_grad=True)
    attention.IMPLEMENTATIONS["triton"](q, q, q).sum().backward()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("operation", PROGRAMS)
def test_memcheck_is_clean(operation):
    code = f"import torch\nfrom example_kernels import {operation}\n{PROGRAMS[operation]}\ntorch.cuda.synchronize()\n"
    command = [SANITIZER, "--tool", "memcheck", "--error-exitcode", "9", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=550)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
