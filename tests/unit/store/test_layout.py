from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.codec import decode_baseline, encode_baseline, encode_session
from pytest_gpuperf.store.errors import UnstorableValueError
from pytest_gpuperf.store.layout import storable, text_of
from pytest_gpuperf.store.schema import Baseline, Entry, SessionInfo, SessionRecord


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (1.23456789, 1.23457),
        (123456789.0, 123457000),
        (20.0, 20),
        (-0.0, 0),
        (5e-324, 5e-324),
        (1.7976931348623157e308, 1.79769e308),
        (True, True),
        (123456789, 123456789),
        ("x\ud800", "x\\ud800"),
        ({"log_median": 1.23456789}, {"log_median": 1.23457}),
        ({"locations": [1.23456789]}, {"locations": [1.23457]}),
        ({"sd_us": 1.23456789}, {"sd_us": 1.235}),
        ({"batches": [(1.23456789, 0.5)]}, {"batches": [[1.23457, 0.5]]}),
        ({"flops": 2.0**40 + 0.5}, {"flops": 2.0**40 + 0.5}),
        ({"device": {}, "kernels": [], "workload": {}}, {"kernels": [], "workload": {}}),
    ],
)
def test_what_is_stored_of_a_value(value: object, stored: object) -> None:
    result = storable(value)
    assert result == stored
    assert type(result) is type(stored)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_without_json_form_is_refused_with_its_path(value: float) -> None:
    with pytest.raises(ValueError, match=r"^\$\.runs\[1\]\.mean_us is "):
        storable({"runs": [{}, {"mean_us": value}]})


def test_an_unstorable_baseline_names_the_file_and_the_path(
    make_run: Callable[..., RunRecord], make_entry: Callable[..., Entry], session: SessionInfo
) -> None:
    entry = msgspec.structs.replace(make_entry(), runs=(make_run(float("nan")),))
    baseline = baselines.replace_entries(None, [entry], session)
    with pytest.raises(UnstorableValueError, match=r"^main\.json: .*runs\[0\]\.mean_us is nan.* report it$"):
        encode_baseline(baseline, "main.json")


def test_numpy_scalars_are_stored_as_the_numbers_they_are(
    make_run: Callable[..., RunRecord], make_entry: Callable[..., Entry], session: SessionInfo
) -> None:
    run = make_run(np.float64(12.5), sd_us=np.float32(0.25), trials=np.int64(20))
    entry = msgspec.structs.replace(make_entry(), runs=(run,))
    data = encode_baseline(baselines.replace_entries(None, [entry], session), "f")
    stored = decode_baseline(data, "f").entries[entry.benchmark.key].runs[0]
    assert (stored.mean_us, stored.sd_us, stored.trials) == (12.5, 0.25, 20)


def test_layout_spreads_what_it_names_and_keeps_the_rest_on_a_line() -> None:
    text = text_of({"b": {"y": 1, "x": [1, 2]}, "a": [{"k": 1}, {}]}, {"a": {"*": {}}})
    assert text == '{\n "b": {"x":[1,2],"y":1},\n "a": [\n  {\n   "k": 1\n  },\n  {}\n ]\n}\n'


def test_one_run_is_one_line_so_that_a_diff_shows_just_the_change(
    baseline: Baseline, make_entry: Callable[..., Entry], session: SessionInfo
) -> None:
    before = encode_baseline(baseline, "f").decode().splitlines()
    extended = baselines.extend_entries(baseline, [make_entry("a", runs=1, mean_us=99.0)], session)
    after = encode_baseline(extended, "f").decode().splitlines()
    assert len(after) == len(before) + 1
    last, added = (line for line in after if line not in before)
    assert last.removesuffix(",") in before
    assert '"mean_us":99' in added


def test_entries_sessions_and_members_are_sorted(
    make_entry: Callable[..., Entry], make_session: Callable[..., SessionInfo]
) -> None:
    first = baselines.replace_entries(None, [make_entry("z")], make_session("s2"))
    content = json.loads(
        encode_baseline(baselines.replace_entries(first, [make_entry("a")], make_session("s1")), "f"),
        object_pairs_hook=lambda pairs: pairs,
    )
    for name in ("sessions", "entries"):
        keys = [key for key, _ in dict(content)[name]]
        assert len(keys) == 2
        assert keys == sorted(keys)
    run = dict(dict(content)["entries"][0][1])["runs"][0]
    assert [key for key, _ in run] == sorted(key for key, _ in run)


def test_kernels_and_notes_are_written_once_an_entry(
    make_run: Callable[..., RunRecord], make_entry: Callable[..., Entry], session: SessionInfo
) -> None:
    kernels = [("gelu_kernel", "add"), ("gelu_kernel", "add"), ("other",), (), None]
    notes = [("throttled",), (), ("throttled",), ("throttled", "launch-bound"), ()]
    runs = tuple(make_run(kernels=one, notes=other) for one, other in zip(kernels, notes, strict=True))
    entry = msgspec.structs.replace(make_entry(), runs=runs)
    baseline = baselines.replace_entries(None, [entry], session)
    data = encode_baseline(baseline, "f")
    assert data.count(b"gelu_kernel") == 1
    assert data.count(b'["throttled"]') == 1
    stored = decode_baseline(data, "f").entries[entry.benchmark.key].runs
    assert [run.kernels for run in stored] == kernels
    assert [run.notes for run in stored] == notes


def test_a_run_names_its_session_where_that_changes(
    baseline: Baseline, make_entry: Callable[..., Entry], make_session: Callable[..., SessionInfo]
) -> None:
    extended = baselines.extend_entries(baseline, [make_entry("a", runs=2)], make_session("later"))
    extended = baselines.extend_entries(extended, [make_entry("a", runs=1)], make_session("5e551011"))
    data = encode_baseline(extended, "f")
    assert decode_baseline(data, "f") == extended
    (key,) = [key for key in extended.entries if "test_a" in key]
    stored = json.loads(data)["entries"][key]["runs"]
    assert [run.get("session") for run in stored] == ["5e551011", None, "later", None, "5e551011"]


def test_ten_runs_of_a_thousand_benchmarks_stay_under_4_mb(
    make_run: Callable[..., RunRecord], make_entry: Callable[..., Entry], session: SessionInfo
) -> None:
    awkward = 1 / 3
    run = make_run(
        awkward,
        log_median=-1.23456789,
        sd_us=awkward / 100,
        min_us=awkward,
        p5_us=awkward,
        p95_us=awkward,
        half_width_us=awkward / 1000,
        lag1_autocorrelation=-awkward / 10,
        effective_trials=awkward * 50,
        resolution_us=awkward / 1e6,
        clock_ghz=awkward * 7,
        batches=((-1.23456789, 1.23456789),),
        locations=tuple(-1.23456789 + step for step in range(5)),
        notes=("no longer than the timer reads around nothing: the work is shorter than it can tell" + " or so" * 8,),
    )
    entries = [msgspec.structs.replace(make_entry(f"{number}"), runs=(run,) * 10) for number in range(1000)]
    baseline = baselines.replace_entries(None, entries, session)
    assert len(baseline.entries) == 1000
    size_bytes = len(encode_baseline(baseline, "f"))
    assert size_bytes < 4_000_000


def test_a_session_record_has_its_facts_first_and_one_run_a_line(record: SessionRecord) -> None:
    lines = encode_session(record, "f").decode().splitlines()
    assert lines[1:3] == [' "format": "pytest-gpuperf session",', ' "schema": 1,']
    assert sum('"half_width_us"' in line for line in lines) == len(record.outcomes[0].runs)
    assert any("12.3,12.7" in line for line in lines)
