"""Any record survives its file, and any file either loads or says what is wrong with it."""

from __future__ import annotations

import json
import string

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_gpuperf.compare.outcome import Outcome
from pytest_gpuperf.compare.verdict import VERDICTS, Decision
from pytest_gpuperf.measure.machine import Machine
from pytest_gpuperf.measure.plan import BenchmarkId, Identity, Workload
from pytest_gpuperf.measure.samples import DeviceState, RunRecord, Trials
from pytest_gpuperf.store import baselines
from pytest_gpuperf.store.codec import decode_baseline, decode_session, encode_baseline, encode_session
from pytest_gpuperf.store.errors import StoreError
from pytest_gpuperf.store.schema import Baseline, Entry, SessionInfo, SessionRecord

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(st.characters(codec=None), max_size=12)  # lone surrogates and control characters included
ids = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
sizes = st.floats(min_value=0, allow_infinity=False)
optional_numbers = st.none() | numbers
benchmark_ids = st.builds(BenchmarkId.of, texts, texts)
identities = st.builds(
    Identity,
    timer=texts,
    cache=st.sampled_from(["cold", "warm"]),
    workload=st.builds(Workload, arguments=texts, bytes_moved=optional_numbers, flops=optional_numbers),
)
device_states = st.builds(
    DeviceState, sm_clock_ghz=optional_numbers, throttle_reasons=st.lists(texts, max_size=2).map(tuple)
)
runs = st.builds(
    RunRecord,
    trials=st.integers(1, 10**6),
    log_median=numbers,
    mean_us=numbers,
    sd_us=sizes,
    min_us=numbers,
    p5_us=numbers,
    p95_us=numbers,
    half_width_us=numbers,
    lag1_autocorrelation=numbers,
    effective_trials=numbers,
    clock_ghz=optional_numbers,
    locations=st.lists(numbers, max_size=5).map(tuple),
    batches=st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple),
    host_us=optional_numbers,
    peak_memory_bytes=st.none() | st.integers(0, 2**62),
    kernels=st.none() | st.lists(texts, max_size=3).map(tuple),
    device=device_states,
    notes=st.lists(texts, max_size=2).map(tuple),
)
session_runs = st.builds(lambda run, session: msgspec.structs.replace(run, session=session), runs, st.just("") | ids)
run_lists = st.lists(runs, min_size=1, max_size=4).map(tuple)
machines = st.builds(Machine, model=texts, kind=texts, host=texts, extra=st.dictionaries(texts, texts, max_size=2))
sessions = st.builds(SessionInfo, id=ids, started=texts, commit=texts, machine=machines, command=texts)
entries = st.builds(Entry, benchmark=benchmark_ids, identity=identities, runs=run_lists, group=texts)
stored_baselines = st.builds(baselines.replace_entries, st.none(), st.lists(entries, max_size=3), sessions)
decisions = st.builds(
    Decision, verdict=st.sampled_from(VERDICTS), reason=texts, ratio=optional_numbers, p_welch=optional_numbers
)
trials = st.builds(
    Trials,
    times_us=st.lists(numbers, max_size=5).map(tuple),
    batch_indices=st.lists(st.integers(0, 9), max_size=5).map(tuple),
)
outcomes = st.builds(
    Outcome,
    benchmark=benchmark_ids,
    identity=identities,
    runs=st.lists(session_runs, min_size=1, max_size=4).map(tuple),
    trials=st.lists(trials, max_size=2).map(tuple),
    decision=decisions,
)
session_records = st.builds(
    SessionRecord,
    info=sessions,
    outcomes=st.lists(outcomes, max_size=2).map(tuple),
    accounting=st.dictionaries(ids, st.integers(0, 99), max_size=3),
    settings=st.dictionaries(ids, st.none() | st.booleans() | st.integers(-9, 9) | numbers | texts, max_size=3),
)


@QUICK
@given(stored_baselines)
def test_saving_what_was_loaded_gives_the_same_bytes(baseline: Baseline) -> None:
    data = encode_baseline(baseline, "f")
    loaded = decode_baseline(data, "f")
    assert encode_baseline(loaded, "f") == data
    assert loaded.entries.keys() == baseline.entries.keys()


@QUICK
@given(stored_baselines)
def test_stored_numbers_are_close_and_identities_exact(baseline: Baseline) -> None:
    loaded = decode_baseline(encode_baseline(baseline, "f"), "f")
    for key, entry in baseline.entries.items():
        assert loaded.entries[key].identity.workload.bytes_moved == entry.identity.workload.bytes_moved
        assert loaded.entries[key].identity.workload.flops == entry.identity.workload.flops
        for old, new in zip(entry.runs, loaded.entries[key].runs, strict=True):
            assert new.log_median == pytest.approx(old.log_median, abs=5.1e-6, rel=1e-12)
            assert new.mean_us == pytest.approx(old.mean_us, rel=5.1e-6)
            assert (new.trials, new.peak_memory_bytes) == (old.trials, old.peak_memory_bytes)


@QUICK
@given(session_records)
def test_session_records_come_back_and_stay_the_same(record: SessionRecord) -> None:
    data = encode_session(record, "f")
    loaded = decode_session(data, "f")
    assert encode_session(loaded, "f") == data
    for old, new in zip(record.outcomes, loaded.outcomes, strict=True):
        assert [run.session for run in new.runs] == [run.session for run in old.runs]
        assert [run.kernels is None for run in new.runs] == [run.kernels is None for run in old.runs]


@QUICK
@given(stored_baselines | session_records)
def test_files_are_strict_json_in_utf_8(stored: Baseline | SessionRecord) -> None:
    data = encode_baseline(stored, "f") if isinstance(stored, Baseline) else encode_session(stored, "f")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(data.decode("utf-8"), parse_constant=refuse)
    data.decode("utf-8").encode("utf-8")


def _loaded_or_refused(data: bytes) -> Baseline | None:
    """What is in the file, or None for a proper refusal; any other exception is the caller's to fail with."""
    try:
        return decode_baseline(data, "the/file")
    except StoreError as error:
        if not str(error).startswith("the/file: "):
            raise
        return None


@QUICK
@given(stored_baselines, st.data())
def test_damage_anywhere_is_a_store_error_or_harmless(baseline: Baseline, draw: st.DataObject) -> None:
    data = bytearray(encode_baseline(baseline, "f"))
    start = draw.draw(st.integers(0, len(data) - 1))
    data[start : start + draw.draw(st.integers(0, 40))] = draw.draw(st.binary(max_size=20))
    loaded = _loaded_or_refused(bytes(data))
    if loaded is not None:
        saved = encode_baseline(loaded, "f")
        assert encode_baseline(decode_baseline(saved, "f"), "f") == saved


@QUICK
@given(session_records, st.data())
def test_a_session_record_cut_anywhere_is_a_store_error(record: SessionRecord, draw: st.DataObject) -> None:
    data = encode_session(record, "f").rstrip()
    with pytest.raises(StoreError, match="the/file"):
        decode_session(data[: draw.draw(st.integers(0, len(data) - 1))], "the/file")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | st.sampled_from(["runs", "kernels"]), inner),
    max_leaves=8,
)


@QUICK
@given(stored_baselines.filter(lambda baseline: baseline.entries), json_values, st.data())
def test_any_value_in_any_place_is_a_store_error_or_loads(
    baseline: Baseline, value: object, draw: st.DataObject
) -> None:
    content = json.loads(encode_baseline(baseline, "f"))
    place = content
    while isinstance(place, dict | list) and place:
        key = draw.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or draw.draw(st.booleans()):
            place[key] = value
            break
        place = place[key]
    _loaded_or_refused(json.dumps(content).encode())
