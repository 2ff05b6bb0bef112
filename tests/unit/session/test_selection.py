"""Whatever mixture of fates a session brings, every benchmark of the baseline is counted once, for the right reason."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Workload
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.session.ledger import Ledger, Selection
from pytest_gpuperf.session.selection import session_account, sort_unmeasured
from pytest_gpuperf.store.schema import Entry

RUN = RunRecord(trials=2, log_median=0.0, mean_us=1.0, sd_us=0.1, min_us=1.0, p5_us=1.0, p95_us=1.0, half_width_us=0.1)


def config(*arguments: str, folder: str = "/root", **options: object) -> pytest.Config:
    """Stand in for pytest's configuration as far as it is asked here."""
    return SimpleNamespace(  # type: ignore[return-value]
        args=list(arguments or [folder]),
        invocation_params=SimpleNamespace(dir=Path(folder)),
        rootpath=Path("/root"),
        getoption=lambda name, default=None: options.get(name, default),
    )


def entry(node_id: str, name: str = "") -> Entry:
    identity = Identity(timer="events", cache="cold", workload=Workload())
    return Entry(benchmark=BenchmarkId.of(node_id, name), identity=identity, runs=(RUN,))


def reason(
    node_id: str, asked: pytest.Config, *, fate: str = "", collected: bool = False, deselected: bool = False
) -> str:
    """Return why a benchmark of the baseline was not measured."""
    ledger, selection, known = Ledger(), Selection(), entry(node_id)
    if fate:
        ledger.fates[node_id] = fate  # type: ignore[assignment]
    if collected:
        selection.collected[node_id] = None
    if deselected:
        selection.deselected.add(node_id)
    reasons = sort_unmeasured({known.benchmark.key: known}, [], ledger, selection, asked)
    (found,) = [why for why, keys in reasons.items() if keys]
    return found


TEST = "tests/gpu/test_a.py::TestA::test_b[1]"


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"fate": "failed", "collected": True}, "failed"),
        ({"fate": "skipped", "collected": True}, "skipped"),
        ({"fate": "passed", "collected": True}, "missing"),
        ({"collected": True}, "missing"),
        ({"collected": True, "deselected": True}, "deselected"),
        ({}, "missing"),
    ],
)
def test_what_became_of_the_test(known: dict[str, object], expected: str) -> None:
    assert reason(TEST, config(), **known) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "covers"),
    [
        ("/root", True),
        (".", True),
        ("tests", True),
        ("tests/", True),
        ("./tests/gpu", True),
        ("tests/../tests/gpu/test_a.py", True),
        ("tests/gpu/test_a.py::TestA", True),
        ("tests/gpu/test_a.py::TestA::test_b", True),
        ("tests/gpu/test_a.py::TestA::test_b[1]", True),
        ("tests/gpu/test_a.py::TestA::test_b[2]", False),
        ("tests/gpu/test_a.py::TestA::test", False),
        ("tests/gpu/test_a.py::Test", False),
        ("tests/g", False),
        ("tests/gpu/test_a", False),
        ("/elsewhere", False),
    ],
)
def test_what_an_argument_selects(argument: str, covers: bool) -> None:
    assert reason(TEST, config(argument)) == ("missing" if covers else "deselected")


def test_arguments_are_relative_to_where_pytest_was_started() -> None:
    assert reason(TEST, config("gpu", folder="/root/tests")) == "missing"
    assert reason(TEST, config("gpu", folder="/root")) == "deselected"


@pytest.mark.parametrize(
    "options",
    [
        {"keyword": "x"},
        {"markexpr": "x"},
        {"lf": True},
        {"stepwise": True},
        {"deselect": ["x"]},
        {"ignore": ["tests/gpu"]},
        {"ignore": ["/root/tests/gpu/test_a.py"]},
        {"ignore_glob": ["*_a.py"]},
        {"ignore_glob": ["tests/g*"]},
    ],
)
def test_a_narrowed_session_cannot_tell_what_is_gone(options: dict[str, object]) -> None:
    assert reason(TEST, config(**options)) == "deselected"


@pytest.mark.parametrize("options", [{"ignore": ["tests/other"]}, {"ignore_glob": ["*_b.py"]}, {"ignore": ["tests/g"]}])
def test_what_is_ignored_elsewhere_hides_nothing(options: dict[str, object]) -> None:
    assert reason(TEST, config(**options)) == "missing"


names = st.sampled_from(["", "one", "two"])
tests = st.sampled_from([f"test_{file}.py::test_{n}" for file in "ab" for n in range(4)])
benchmarks = st.tuples(tests, names)


@given(
    baseline=st.sets(benchmarks),
    measured=st.sets(benchmarks),
    fates=st.dictionaries(tests, st.sampled_from(["passed", "failed", "skipped"])),
    collected=st.sets(tests),
    deselected=st.sets(tests),
    arguments=st.lists(st.sampled_from(["/root", "test_a.py", "test_b.py::test_1", "/elsewhere"]), min_size=1),
    narrowed=st.booleans(),
)
def test_the_sum_always_comes_out(baseline, measured, fates, collected, deselected, arguments, narrowed) -> None:
    entries = {e.benchmark.key: e for e in (entry(*pair) for pair in baseline)}
    done = [BenchmarkId.of(*pair).key for pair in measured]
    ledger, selection = Ledger(), Selection()
    ledger.fates.update(fates)
    ledger.node_ids.update({BenchmarkId.of(*pair).key: pair[0] for pair in measured})
    selection.collected.update(dict.fromkeys(collected))
    selection.deselected.update(deselected)
    asked = config(*arguments, keyword="x" if narrowed else None)
    account = session_account(entries, done, sort_unmeasured(entries, done, ledger, selection, asked))
    assert account.balanced
    assert account.measured == len(measured)
    assert account.baseline == len(baseline)
