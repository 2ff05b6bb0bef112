"""What a device's ceilings are measured with: calls that move or compute a known amount and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

COPY = "copy"
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "tf32": "float32", "fp32": "float32"}
"""By the kinds of arithmetic that a matmul's rate is measured for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One call, and the bytes that it reads and writes or the operations that it does."""

    what: str
    """`copy`, or the arithmetic of a matmul."""
    amount: float
    call: Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """How a back end's ceilings are measured."""

    by: str
    """The software and what of it decides the rates, such as `torch 2.13.0, 2 threads`; part of the cache's key."""
    cache_bytes: int | None
    """What the last-level cache holds; None where that cannot be told."""
    probes: Callable[[], Iterator[Probe]]
    """Makes the calls one after the other, each with buffers of its own that are given back before the next."""
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What may be above a measured ceiling and yet be honest."""

    margin: float
    """How much better than a copy or a library's matmul honest code can be, as a factor at the same clock."""
    clock_margin: float
    """The same where the clock was not metered on both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large the probes are."""

    copies_bytes: Sequence[int]
    """Of each of the two buffers."""
    matmuls: Sequence[tuple[str, int]]
    """Arithmetic and rows = columns of both factors."""


def torch_probes(torch: Any, device: str, sizes: Sizes) -> Iterator[Probe]:
    """Yield probes of PyTorch's own copy and matmul, on random data: zeros draw less power and clock higher."""
    # One of our own: the test's random numbers must not depend on whether ceilings were measured.
    random = {"generator": torch.Generator(device=device).manual_seed(0), "dtype": torch.float32, "device": device}
    for size_bytes in sizes.copies_bytes:
        source = torch.rand(size_bytes // 4, **random)
        target = torch.empty_like(source)
        yield Probe(what=COPY, amount=2.0 * source.numel() * 4, call=partial(target.copy_, source))
        del source, target
    for arithmetic, n in sizes.matmuls:
        dtype = getattr(torch, DTYPES[arithmetic])
        a, b = (torch.randn(n, n, **random).to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        with _precision(torch, arithmetic):
            yield Probe(what=arithmetic, amount=2.0 * n**3, call=partial(torch.matmul, a, b, out=out))
        del a, b, out


def numpy_probes(sizes: Sizes, threads: int) -> Iterator[Probe]:
    """Yield probes of NumPy's copy and fp32 matmul (it has no other arithmetic that is fast), on so many threads.

    Each thread copies a part of the buffers, or multiplies matrices of its own: what one core does is no ceiling for
    code that uses all of them.
    """
    import numpy as np

    generator = np.random.default_rng(0)
    with ThreadPoolExecutor(threads) as pool:
        for size_bytes in sizes.copies_bytes:
            source = generator.random(size_bytes // 4, dtype=np.float32)
            parts = zip(np.array_split(np.zeros_like(source), threads), np.array_split(source, threads), strict=True)
            copies = [partial(np.copyto, *part) for part in parts]
            yield Probe(what=COPY, amount=2.0 * source.nbytes, call=partial(_together, pool, copies))
        for arithmetic, n in sizes.matmuls:
            if arithmetic == "fp32":
                factors = [[generator.random((n, n), dtype=np.float32) for _ in range(2)] for _ in range(threads)]
                matmuls = [partial(np.matmul, a, b, out=np.empty_like(a)) for a, b in factors]
                amount = 2.0 * n**3 * threads
                yield Probe(what=arithmetic, amount=amount, call=partial(_together, pool, matmuls))


def _together(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], object]]) -> None:
    for running in [pool.submit(call) for call in calls]:
        running.result()


@contextmanager
def torch_threads(torch: Any, threads: int) -> Iterator[None]:
    """Let torch use so many threads on the CPU within the body."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def float32_arithmetic(torch: Any) -> str:
    """Say what torch multiplies fp32 matrices in on CUDA under its present settings: `tf32` or `fp32`."""
    own = torch.backends.cuda.matmul.fp32_precision
    return "tf32" if "tf32" in (own, torch.backends.fp32_precision if own == "none" else own) else "fp32"


def _precision(torch: Any, arithmetic: str) -> AbstractContextManager[None]:
    wanted = {"tf32": "tf32", "fp32": "ieee"}.get(arithmetic)
    return nullcontext() if wanted is None else _fp32_precision(torch.backends.cuda.matmul, wanted)


@contextmanager
def _fp32_precision(settings: Any, wanted: str) -> Iterator[None]:
    before = settings.fp32_precision
    settings.fp32_precision = wanted
    try:
        yield
    finally:
        settings.fp32_precision = before
