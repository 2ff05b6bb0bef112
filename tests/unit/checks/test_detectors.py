"""The detectors by themselves: plain values in, a phrase or silence out."""

from __future__ import annotations

import functools
from collections import Counter

import pytest

from pytest_gpuperf.checks import (
    aliasing,
    caching,
    kernels,
    lazy,
    pageable,
    precision,
    sight,
    stale,
    streams,
    sync,
    work,
)
from pytest_gpuperf.checks.launches import Launch, Observed, busy_us, kernel_uses, listed, missing


def observed(*names: str, us: float = 10.0, elements: int = 0) -> Observed:
    launches = [
        Launch(name=name, start_us=i * us, duration_us=0.0 if elements else us, elements=elements)
        for i, name in enumerate(names)
    ]
    return Observed(output=None, launches=tuple(launches))


def test_a_lookup_is_work_that_only_new_inputs_cause():
    new, again = observed("hash", "softmax"), observed("hash")
    assert caching.looked_up(new, again, again) == {"softmax": 1}


@pytest.mark.parametrize(
    ("new", "again", "repeated"),
    [
        (("gemm",), ("gemm",), ("gemm",)),
        (("pack", "gemm"), ("pack", "gemm"), ("gemm",)),
        (("gemm", "gemm"), ("gemm",), ("gemm", "gemm")),
        (("gemm",), ("copy",), ("copy",)),
    ],
    ids=["the same", "second call does it too", "timed calls do it too", "something else instead"],
)
def test_other_differences_are_no_lookups(new, again, repeated):
    assert not caching.looked_up(observed(*new), observed(*again), observed(*repeated))


def test_work_that_only_the_timed_calls_leave_out():
    new, usual = observed("equal", "exp", "softmax"), observed("equal", "aten.clone.default")
    assert caching.remembered(new, new, usual) == {"exp": 1, "softmax": 1}
    assert not caching.remembered(new, usual, usual)
    assert not caching.remembered(new, new, new)
    # A copy that only other inputs need is no work that is left out.
    assert not caching.remembered(observed("Memcpy DtoD", "gemm"), observed("Memcpy DtoD", "gemm"), observed("gemm"))
    # Something else is done instead.
    assert not caching.remembered(new, new, observed("equal", "relu"))


def test_what_a_call_may_take_when_nobody_times_it():
    assert work.slowest_untimed_us(5.0) == 100.0
    assert work.slowest_untimed_us(200.0) == 1000.0


def test_what_an_output_holds():
    inner = {"b": (3, [4])}
    assert list(sight.held([1, inner])) == [[1, inner], 1, inner, (3, [4]), 3, [4], 4]
    assert lazy.computes_when_asked(lambda: None)
    assert lazy.computes_when_asked(functools.partial(print))
    assert not any(map(lazy.computes_when_asked, (1, "text", None, int, [])))
    assert len(list(sight.held([0] * 1000))) == 1 + sight.MOST_ITEMS


def test_a_small_part_that_is_missing_is_none():
    early = Observed(
        output=None, launches=(Launch(name="gemm", duration_us=90.0), Launch(name="fill", duration_us=5.0))
    )
    assert missing(early, observed("gemm")) == Counter()


def test_a_function_in_a_cache():
    cached = functools.lru_cache(lambda n: n)
    for _ in range(11):
        cached(1)
    assert "answered 10 calls" in caching.cache_hits(cached, 10)
    assert caching.cache_hits(cached, 11) == ""
    assert caching.cache_hits(len, 10) == ""


def test_work_that_shrinks():
    assert "no longer runs softmax" in work.shrunk(observed("gemm", "softmax"), observed("gemm"))
    assert "works out 100 elements instead of 400" in work.shrunk(
        observed("exp", elements=400), observed("exp", elements=100)
    )
    assert work.shrunk(observed("exp", elements=400), observed("exp", elements=390)) == ""
    assert work.shrunk(observed("gemm"), observed("gemm", "softmax")) == ""


def test_the_device_is_busy_once_where_launches_overlap():
    launches = [Launch(name="a", start_us=0, duration_us=10), Launch(name="b", start_us=5, duration_us=10)]
    assert busy_us(launches) == 15
    assert busy_us([*launches, Launch(name="c", start_us=20, duration_us=1)]) == 16
    assert busy_us([]) == 0


def test_what_the_timer_did_not_see():
    hidden = Observed(
        output=None, launches=(Launch(name="gemm", duration_us=100.0, stream=13), Launch(name="x", stream=7))
    )
    said = streams.unseen((hidden, hidden), 4.0)
    assert "busy for 100 us on streams 7, 13, of which the timer saw 4 us" in said
    assert streams.unseen((hidden, hidden), 101.0) == ""
    # The clock was low in one of the calls.
    assert streams.unseen((hidden, observed("gemm", us=20.0)), 18.0) == ""


def test_who_owns_an_output():
    owned = {"argument 0": ("cuda", 1), "argument 1": ("cuda", 2)}
    assert aliasing.owners([("cuda", 1)], owned) == ["argument 0"]
    assert aliasing.owners([("cuda", 1), ("cuda", 2)], owned) == ["argument 0", "argument 1"]
    assert aliasing.owners([("cuda", 1), ("cuda", 3)], owned) == []
    assert aliasing.owners([], owned) == []


def test_unwritten_outputs():
    assert list(stale.phrases([(0, 10)])) == []
    assert list(stale.phrases([(0, 10), (5, 10)])) == [
        "0.5 of output 1 still holds the NaN that filled its memory before the call"
    ]


def test_reading_that_works_first():
    assert "runs softmax first" in lazy.deferred(observed("softmax", "add"), observed("add"), "Lazy")
    assert lazy.deferred(observed("dequantise", "add"), observed("dequantise", "add"), "Quantised") == ""


def test_promises():
    assert "generator" in lazy.promise(x for x in ())
    assert "map" in lazy.promise(map(abs, ()))
    assert lazy.promise(range(3)) == lazy.promise([1]) == lazy.promise("text") == lazy.promise(None) == ""


@pytest.mark.parametrize(
    ("dtype", "error", "reference_error", "is_lowered"),
    [
        ("float32", 3e-4, 2e-7, True),
        ("float32", 3e-4, 2.5e-4, False),
        ("float32", float("inf"), float("nan"), False),
        ("float32", 0.9, 0.1, False),
        ("float32", 5e-6, 1e-7, False),
        ("float64", 3e-8, 1e-16, True),
        ("bfloat16", 2e-3, 1.7e-3, False),
        ("bfloat16", 3e-2, 1.7e-3, True),
        ("float16", 2e-3, 2e-4, True),
        ("float32", float("nan"), 1e-7, False),
        ("int32", 1.0, 0.0, False),
    ],
)
def test_lower_precision(dtype, error, reference_error, is_lowered):
    assert bool(precision.lowered(dtype, error, reference_error)) is is_lowered


def test_the_kernel_limit():
    assert kernels.too_many(observed("gemm"), 1) == ""
    assert kernels.too_many(observed("gemm", "copy", "copy"), 2) == "one call launches 3 (copy ×2, gemm), max_kernels=2"


def test_kernels_are_summed_up_the_longest_first():
    uses = kernel_uses([*observed("fill", us=1.0).launches, *observed("gemm", "gemm").launches])
    assert [(use.name, use.launches, use.time_us, use.streams) for use in uses] == [
        ("gemm", 2, 20.0, (0,)),
        ("fill", 1, 1.0, (0,)),
    ]


def test_lists_are_bounded():
    assert listed(Counter(a=2, b=1, c=1, d=1)) == "a ×2, b, c and 1 more"


def test_places_are_said_once():
    assert list(sync.phrases({"a.py:3 in f": 1, "b.py:4 in g": 7}, on_gpu=True)) == [
        "a.py:3 in f waits for the GPU in one call",
        "b.py:4 in g waits for the GPU 7 times in one call",
    ]
    assert "would wait for a GPU" in next(sync.phrases({"a.py:3 in f": 1}, on_gpu=False))
    assert list(pageable.phrases({"a.py:3 in f": 12})) == [
        "a.py:3 in f copies 12 bytes to the GPU from pageable memory"
    ]
