"""Tricks that work on every n-th call only, or hand out what earlier calls worked out, wherever the checks begin."""

from __future__ import annotations

from collections import deque

import pytest

from pytest_gpuperf.checks import late
from pytest_gpuperf.checks.inspection import Inspection

torch = pytest.importorskip("torch")

TURNS = (2, 3, 4, 5, 6, 7, 8, 10)
HANDED_OUT = {"itself": lambda y: y, "a copy": torch.clone, "a part": lambda y: y[:32] * 1.0}


def softmax(x):
    return torch.softmax(x.exp(), -1)


def every_nth(n, work, handed_out):
    def cheat(x):
        cheat.calls += 1
        if cheat.calls % n == 1:
            cheat.output = work(x)
        return handed_out(cheat.output)

    cheat.calls = 0
    return cheat


def queued(k, work, handed_out):
    """Work on every call, and return what was worked out k calls before."""
    results = deque()

    def cheat(x):
        results.append(work(x))
        return handed_out(results.popleft() if len(results) > k else results[0])

    return cheat


@pytest.fixture
def begun_later(monkeypatch):
    """Return what makes the calls after the timed region begin some calls later, as on a faster machine."""

    def begin(skip):
        after = Inspection.after

        def later(inspection, *args):
            skip()
            return after(inspection, *args)

        monkeypatch.setattr(Inspection, "after", later)

    return begin


def is_said(inspected, text):
    """Whether the check says so; a timer may have refused the callable before, as calls that launch nothing are."""
    assert inspected.notes == ()
    return any(
        finding.check == "refused" or (finding.check == "caching" and text in finding.seen)
        for finding in inspected.findings
    )


@pytest.mark.parametrize("handed_out", HANDED_OUT)
@pytest.mark.parametrize(("n", "phase"), [(n, phase) for n in TURNS for phase in range(n)])
def test_work_on_every_nth_call_only(inspected, begun_later, x, n, phase, handed_out):
    cheat = every_nth(n, softmax, HANDED_OUT[handed_out])

    def skip():
        cheat.calls += (phase - cheat.calls) % n

    begun_later(skip)
    calls = "1 more call returns" if n == 2 else f"{n - 1} more calls return"
    assert is_said(inspected(cheat, x), f"where the inputs change, {calls} the output for those before")


@pytest.mark.parametrize("handed_out", HANDED_OUT)
@pytest.mark.parametrize("skipped", range(3))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_results_of_earlier_calls(inspected, begun_later, x, k, skipped, handed_out):
    cheat = queued(k, softmax, HANDED_OUT[handed_out])
    begun_later(lambda: [cheat(x * 0.3) for _ in range(skipped)])
    calls = "1 more call returns" if k == 1 else f"{k} more calls return"
    assert is_said(inspected(cheat, x), f"where the inputs change, {calls} the output for those before")


WORK = {
    "one number": lambda x: x.exp().sum(),
    "numbers and flags": lambda x: (x.exp().mean(-1), x > 0),
    "whole numbers": lambda x: (x * 1000).round(),
    "complex numbers": lambda x: torch.fft.fft(x),
    "half precision": lambda x: softmax(x).half(),
    "infinity": lambda x: torch.where(x > 0, x, float("inf")),
}


@pytest.mark.parametrize("phase", range(3))
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("kind", [every_nth, queued])
def test_outputs_of_every_kind(inspected, begun_later, x, kind, work, phase):
    cheat = kind(3, WORK[work], lambda y: y)
    begun_later(lambda: [cheat(x) for _ in range(phase)])
    assert is_said(inspected(cheat, x), "where the inputs change, ")


def test_a_lack_of_time_for_it_loses_nothing_else(inspected, x, monkeypatch):
    monkeypatch.setattr(late, "LONGEST_TURN", 10**9)
    kept = softmax(x)

    def cheat(x):
        softmax(x)
        return kept

    found = inspected(cheat, x)
    assert found.notes == ("checks came to nothing (no time for more calls): caching",)
    assert [finding.check for finding in found.findings] == ["caching"]
