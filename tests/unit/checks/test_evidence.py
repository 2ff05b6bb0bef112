"""What the checks gather: here, what a call of the reference takes."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_gpuperf.checks.budget import Budget
from pytest_gpuperf.checks.evidence import Evidence
from pytest_gpuperf.checks.known_calls import FirstCall
from pytest_gpuperf.checks.subject import Subject
from pytest_gpuperf.checks.watching import watcher_for

torch = pytest.importorskip("torch")


def evidence_of(first_s: float, called: list[Any], limit_s: float = 10.0) -> Evidence:
    """Evidence on a callable whose reference took `first_s` the first time; later calls are noted."""
    subject = Subject(fn=torch.exp, args=(torch.ones(3),), device="cpu", reference=called.append)
    return Evidence(subject, torch, watcher_for("cpu", torch), FirstCall(reference_s=first_s), Budget(limit_s))


def test_a_first_call_that_compiled_or_loaded_is_not_what_the_reference_takes():
    called: list[Any] = []
    evidence = evidence_of(0.15, called)
    assert evidence.reference_s != 0.15
    assert evidence.reference_s == evidence.reference_s  # gathered once
    assert len(called) == 1
    assert called[0] is not evidence.subject.args[0]  # a reference that works in place spoils no inputs


@pytest.mark.parametrize(("first_s", "limit_s"), [(0.001, 10.0), (0.15, 0.1), (3.0, 0.4)])
def test_a_quick_reference_or_one_there_is_no_time_for_is_not_called_again(first_s, limit_s):
    called: list[Any] = []
    evidence = evidence_of(first_s, called, limit_s)
    assert evidence.reference_s == first_s
    assert called == []


def test_the_fresh_call_follows_one_on_the_benchmarks_own_inputs():
    seen: list[float] = []
    subject = Subject(fn=lambda x: seen.append(float(x.sum())), args=(torch.full((3,), 2.0),), device="cpu")
    evidence = Evidence(subject, torch, watcher_for("cpu", torch), FirstCall(), Budget(10.0))
    assert evidence.fresh.changed == ()
    assert seen[-2] == 6.0
    assert seen[-1] != 6.0
