"""The roofline model: no call is quicker than its arithmetic, or its memory traffic, at the device's full speed.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52 (4), 2009:
time >= max(operations / P, bytes / W), with P the device's arithmetic rate and W its memory bandwidth.

P is the *dense* rate of the arithmetic that is used. Vendors like to print the rate with 2:4 structured sparsity,
which is twice that and holds for no ordinary matmul: of an H100 SXM in bf16, 1,979 TFLOP/s is the sparse figure and
989 the dense one.
"""

from __future__ import annotations

from pytest_gpuperf.stated import finite_number, positive_number, shown


def arithmetic_intensity(flops: float, bytes_moved: float) -> float:
    """Return operations per byte of memory traffic, in FLOP/byte.

    Raises `ValueError` where either is not a positive number.
    """
    return _positive("flops", flops) / _positive("bytes_moved", bytes_moved)


def ridge_point(flops_per_s: float, bytes_per_s: float) -> float:
    """Return the intensity P / W, in FLOP/byte, from which on arithmetic and no longer memory is the limit.

    With dense bf16 peaks from the data sheets: 989e12 / 3.35e12 = 295 for an H100 SXM, 312e12 / 2.04e12 = 153 for an
    A100 SXM 80 GB. Raises `ValueError` where either is not a positive number.
    """
    return _positive("flops_per_s", flops_per_s) / _positive("bytes_per_s", bytes_per_s)


def critical_batch(flops_per_s: float, bytes_per_s: float, *, weight_bytes: float = 2.0) -> float:
    """Return the batch, in tokens, from which on multiplying by a weight matrix is limited by arithmetic: P b / (2 W).

    A batch of B tokens costs 2 B operations for each weight, and each weight of b bytes is read once, however many
    tokens there are: both take equally long at B = P b / (2 W). What the tokens themselves move is left out, as it is
    small for matrices much wider than B. Weights of one byte with bf16 arithmetic halve it: P stays, b halves.

    Raises `ValueError` where an argument is not a positive number.
    """
    return ridge_point(flops_per_s, bytes_per_s) * _positive("weight_bytes", weight_bytes) / 2


def decode_attention_intensity(query_heads: int, kv_heads: int, *, value_bytes: float = 2.0) -> float:
    """Return the intensity, in FLOP/byte, of attention for one new token a sequence: 2 N / (K b).

    For S cached positions of width d: each of the N query heads does 2 S d operations for its scores and 2 S d for its
    sum of values; each of the K key-value heads has 2 S d numbers of b bytes read. S, d and the batch cancel out, as
    every sequence reads a cache of its own: no batch makes decoding with few query heads a key limited by arithmetic.
    In 16 bits it is N / K, so 1 for multi-head and 8 for 64 query heads on 8 keys.

    Raises `ValueError` where an argument is not positive.
    """
    operations = 2.0 * _positive("query_heads", query_heads)
    return operations / (_positive("kv_heads", kv_heads) * _positive("value_bytes", value_bytes))


def least_time_us(
    *,
    flops: float | None = None,
    flops_per_s: float | None = None,
    bytes_moved: float | None = None,
    bytes_per_s: float | None = None,
) -> float:
    """Return max(flops / P, bytes / W) in microseconds; a pair of which one is None counts for nothing.

    Raises `ValueError` where a rate is not positive, or an amount is negative.
    """
    return 1e6 * max(_seconds("flops", flops, flops_per_s), _seconds("bytes_moved", bytes_moved, bytes_per_s))


def _seconds(name: str, amount: float | None, per_s: float | None) -> float:
    if amount is not None:
        number = finite_number(amount)
        if number is None or number < 0:
            raise ValueError(f"{name} must be a number from 0, not {shown(amount)}")
    rate = None if per_s is None else _positive(f"the rate of {name}", per_s)
    return 0.0 if amount is None or rate is None else float(amount) / rate


def _positive(name: str, value: float) -> float:
    number = positive_number(value)
    if number is None:
        raise ValueError(f"{name} must be a positive number, not {shown(value)}")
    return number
