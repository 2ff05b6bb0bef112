"""All checks, the cheap ones and those that others build on first."""

from __future__ import annotations

from pytest_gpuperf.checks import (
    aliasing,
    caching,
    compiling,
    constant,
    gradients,
    kernels,
    lazy,
    mutation,
    output,
    pageable,
    patched,
    precision,
    stale,
    state,
    streams,
    sync,
    work,
)
from pytest_gpuperf.checks.check import Check

WITHOUT_TENSORS: tuple[Check, ...] = (
    patched.CHECK,
    state.CHECK,
    lazy.CHECK,
    caching.CACHED_FUNCTION,
    compiling.CHECK,
)
"""Checks that make no calls, unless on a tensor that an output pretends to be."""

WITH_TENSORS: tuple[Check, ...] = (
    kernels.CHECK,
    sync.CHECK,
    pageable.CHECK,
    work.CHECK,
    caching.CHECK,
    streams.CHECK,
    stale.CHECK,
    aliasing.CHECK,
    mutation.CHECK,
    output.CHECK,
    constant.CHECK,
    precision.CHECK,
    gradients.CHECK,
    work.UNTIMED,
    caching.LATE,
)

CHECKS = (*WITHOUT_TENSORS, *WITH_TENSORS)
