"""GeLU as CUDA C++ kernels (`gelu.cu`), built with nvcc on first use and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch

from example_kernels.gelu.registration import register, register_backward
from example_kernels.support.layout import dense_like
from example_kernels.support.nvcc import load_library

SOURCE = Path(__file__).with_name("gelu.cu")
DTYPE_CODES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
VECTOR_BYTES = 16

_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int


@functools.cache
def _library(architecture: str) -> ctypes.CDLL:
    """Load the library for `architecture` with its functions' types declared; raises CudaBuildError."""
    library = load_library(SOURCE, architecture)
    library.gelu_forward.argtypes = [_POINTER, _POINTER, _SIZE, _INT, _INT, _INT, _POINTER]
    library.gelu_backward.argtypes = [_POINTER, _POINTER, _POINTER, _SIZE, _INT, _INT, _INT, _POINTER]
    library.gelu_error_text.restype = ctypes.c_char_p
    return library


def _library_for(x: torch.Tensor) -> ctypes.CDLL:
    major, minor = torch.cuda.get_device_capability(x.device)
    return _library(f"sm_{major}{minor}")


def _check(x: torch.Tensor, approximate: str) -> None:
    if not x.is_cuda:
        raise ValueError(f"CUDA kernels need CUDA tensors, got one on {x.device}")
    if x.dtype not in DTYPE_CODES:
        raise TypeError(f"GeLU kernels take float32, float16 and bfloat16, not {x.dtype}")
    if approximate not in {"none", "tanh"}:
        raise ValueError(f'approximate is "none" or "tanh", not {approximate!r}')


def _aligned(*tensors: torch.Tensor) -> bool:
    return all(t.data_ptr() % VECTOR_BYTES == 0 for t in tensors)


def _raise_on(library: ctypes.CDLL, code: int) -> None:
    if code != 0:
        raise RuntimeError(f"GeLU kernel launch failed: {library.gelu_error_text(code).decode()}")


def _forward(x: torch.Tensor, approximate: str, vectorised: bool) -> torch.Tensor:
    """Launch on the current stream of the device that holds `x`."""
    _check(x, approximate)
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    x = dense_like(x, y)
    library = _library_for(x)
    options = (DTYPE_CODES[x.dtype], approximate == "tanh", vectorised and _aligned(x, y))
    with torch.cuda.device_of(x):
        stream = torch.cuda.current_stream().cuda_stream
        _raise_on(library, library.gelu_forward(x.data_ptr(), y.data_ptr(), x.numel(), *options, stream))
    return y


@torch.library.custom_op("example_kernels::gelu_cuda", mutates_args=())
def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return GeLU of every element of `x` (any shape and strides), 16 bytes at a time where the data are aligned."""
    return _forward(x, approximate, vectorised=True)


@torch.library.custom_op("example_kernels::gelu_cuda_scalar", mutates_args=())
def gelu_scalar(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return GeLU of every element of `x` (any shape and strides), one thread an element."""
    return _forward(x, approximate, vectorised=False)


@torch.library.custom_op("example_kernels::gelu_cuda_backward", mutates_args=())
def gelu_backward(dy: torch.Tensor, x: torch.Tensor, approximate: str) -> torch.Tensor:
    """Return dy · gelu'(x), in the shape and dtype of `x`."""
    _check(x, approximate)
    dx = torch.empty_like(x)
    if x.numel() == 0:
        return dx
    x, dy = dense_like(x, dx), dense_like(dy, dx)
    library = _library_for(x)
    pointers = (dy.data_ptr(), x.data_ptr(), dx.data_ptr())
    options = (DTYPE_CODES[x.dtype], approximate == "tanh", _aligned(dy, x, dx))
    with torch.cuda.device_of(x):
        stream = torch.cuda.current_stream().cuda_stream
        _raise_on(library, library.gelu_backward(*pointers, x.numel(), *options, stream))
    return dx


register(gelu, gelu_backward)
register(gelu_scalar, gelu_backward)
register_backward(gelu_backward)
