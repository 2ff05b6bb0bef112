"""Ceilings, and the limits that a test sets, in whole sessions on the scripted device.

It copies 4 TB/s, multiplies at 800 TFLOP/s and has 60 MB of cache; a call takes 100 us unless `times` says otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

TESTS = """
import json
import pathlib

import pytest

from conftest import backend

def keep(result, name):
    if result is not None:
        facts = [result.ceiling_share, result.bound, result.ceiling, result.launch_bound, result.peak_reserved_bytes]
        pathlib.Path(name).write_text(json.dumps([*facts, list(result.notes)]))

def test_copy(gpubench, work):
    gpubench.run(work, ("copy",), bytes_moved=3.6e8)
    keep(gpubench.result, "copy.json")

def test_matmul(gpubench, work):
    gpubench.run(work, ("matmul",), bytes_moved=1e6, flops=6e10)
    keep(gpubench.result, "matmul.json")

def test_plain(gpubench, work):
    gpubench(work, "plain")

@pytest.mark.perf(min_speed_of_light=0.8)
def test_fast_enough(gpubench, work):
    gpubench.run(work, ("limited",), bytes_moved=3.6e8)

@pytest.mark.perf(max_peak_memory="1 MiB")
def test_memory(gpubench):
    def holds():
        backend.clock.advance_us(10.0)
        backend.clock.allocate(json.loads(pathlib.Path("held.json").read_text()))

    gpubench(holds)
    keep(gpubench.result, "memory.json")

@pytest.mark.perf(cache="warm")
def test_resident(gpubench, work):
    gpubench.run(work, ("resident",), bytes_moved=1e8)
    keep(gpubench.result, "resident.json")

def test_dispatch(gpubench):
    def slow_host():
        backend.clock.advance_us(20.0)
        backend.clock.advance_host_us(900.0)

    gpubench(slow_host)
    keep(gpubench.result, "dispatch.json")
"""


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))
    return path


@pytest.fixture
def physics(new_suite, cache: Path):
    new_suite.write("test_suite.py", TESTS)
    new_suite.write("held.json", "1024")
    return new_suite


def _kept(suite, name: str) -> list:
    return json.loads((suite.path / f"{name}.json").read_text())


def _cached(cache: Path) -> list[Path]:
    return list(cache.glob("pytest-gpuperf/ceilings/*.json"))


def test_a_result_has_its_share_and_the_bound_that_holds(physics) -> None:
    result = physics.run("--gpuperf", "--gpuperf-json=out.json", "-k", "copy or matmul")
    result.assert_outcomes(passed=2)
    share, bound, ceiling, *_ = _kept(physics, "copy")
    assert (share, bound) == (pytest.approx(0.9, rel=0.05), "memory")
    assert ceiling.endswith("TB/s copied")
    share, bound, ceiling, *_ = _kept(physics, "matmul")
    assert (share, bound) == (pytest.approx(0.75, rel=0.05), "compute")
    assert ceiling.endswith("TFLOP/s bf16")
    result.stdout.fnmatch_lines(["*of peak*", "test_copy*new*[89]?.? %*", "test_matmul*new*7?.? %*"])
    by_label = {one["benchmark"]["node_id"]: one for one in physics.json("out.json")["outcomes"]}
    assert by_label["test_suite.py::test_matmul"]["bound"] == "compute"


def test_the_columns_can_be_asked_for(physics) -> None:
    result = physics.run("--gpuperf", "--gpuperf-columns=name,bandwidth,compute,bound", "-k", "matmul or plain")
    result.stdout.fnmatch_lines(["name*TB/s*TFLOP/s*bound", "test_matmul*0.01*[56]??*compute", "test_plain*-*-*-"])


def test_ceilings_are_measured_only_where_something_is_stated_and_only_once(physics, cache: Path) -> None:
    physics.run("--gpuperf", "-k", "plain")
    assert _cached(cache) == []
    physics.run("--gpuperf", "-k", "copy")
    (file,) = _cached(cache)
    content = file.read_bytes()
    physics.run("--gpuperf", "-k", "copy or matmul")
    assert file.read_bytes() == content
    physics.run("--gpuperf", "-k", "copy", "--gpuperf-ceilings=measure")
    assert file.read_bytes() != content


def test_measuring_them_is_told_while_it_goes_on(physics) -> None:
    told = "gpuperf: measuring this machine's ceilings, which takes some seconds and is kept"
    first = physics.run("--gpuperf", "-k", "copy")
    first.stdout.fnmatch_lines([told])
    assert first.stdout.str().index(told) < first.stdout.str().index("gpuperf: Fake GPU")
    physics.run("--gpuperf", "-k", "copy").stdout.no_fnmatch_line(told)
    physics.run("--gpuperf", "-q", "-k", "copy", "--gpuperf-ceilings=measure").stdout.no_fnmatch_line(told)


def test_they_can_be_left_out(physics, cache: Path) -> None:
    physics.run("--gpuperf", "-k", "copy", "--gpuperf-ceilings=off").assert_outcomes(passed=1)
    assert _kept(physics, "copy")[:3] == [None, "", ""]
    assert _cached(cache) == []


def test_beyond_the_ceiling_is_impossible_and_fails_and_is_not_stored(physics) -> None:
    physics.times(copy=40.0)
    result = physics.run("--gpuperf-save-baseline", "--gpuperf-runs=2", "-k", "copy or plain")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*check impossible: *TB/s, where this machine copies 4* TB/s*"])
    assert list(physics.entries()) == ["test_suite.py::test_plain"]


def test_a_ceiling_is_measured_again_before_it_is_called_broken(physics, cache: Path) -> None:
    physics.run("--gpuperf", "-k", "copy")
    (file,) = _cached(cache)
    ceilings = json.loads(file.read_text())
    ceilings["bandwidth"]["per_s"] /= 3
    file.write_text(json.dumps(ceilings))
    physics.run("--gpuperf", "-k", "copy").assert_outcomes(passed=1)
    assert _kept(physics, "copy")[0] == pytest.approx(0.9, rel=0.05)
    assert json.loads(file.read_text())["bandwidth"]["per_s"] == pytest.approx(4e12, rel=0.05)


def test_what_stays_in_the_cache_is_not_accused(physics) -> None:
    physics.times(resident=1.0)
    physics.run("--gpuperf", "-k", "resident").assert_outcomes(passed=1)
    assert _kept(physics, "resident")[0] is None


def test_a_share_below_the_limit_fails(physics) -> None:
    physics.run("--gpuperf", "-k", "fast_enough").assert_outcomes(passed=1)
    physics.times(limited=150.0)
    result = physics.run("--gpuperf", "-k", "fast_enough")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*check min_speed_of_light: ??.? % of 4* TB/s copied*the test asks for 80 %*"])


def test_peak_memory_is_exact(physics) -> None:
    physics.write("held.json", str(1 << 20))
    physics.run("--gpuperf", "-k", "memory").assert_outcomes(passed=1)
    assert _kept(physics, "memory")[4] == 2 << 20
    physics.write("held.json", str((1 << 20) + 1))
    result = physics.run("--gpuperf", "-k", "memory")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*check max_peak_memory: one call holds 1.00 MiB (1048577 bytes) at its peak*"])


def test_limits_do_not_matter_where_nothing_is_measured(physics) -> None:
    physics.times(limited=1e6, copy=1.0)
    physics.run().assert_outcomes(passed=7)


def test_launch_bound_benchmarks_are_named(physics) -> None:
    result = physics.run("--gpuperf", "-k", "dispatch or plain")
    result.assert_outcomes(passed=2)
    assert _kept(physics, "dispatch")[3] is True
    result.stdout.fnmatch_lines(["Launch-bound: test_dispatch (900.0 us to dispatch, * us to run): *"])


def test_limits_that_cannot_be_judged_are_said(physics) -> None:
    physics.run("--gpuperf", "-k", "copy", "--gpuperf-ceilings=off", "--gpuperf-min-speed-of-light=0.5")
    assert any("min_speed_of_light is not judged" in note for note in _kept(physics, "copy")[5])


def test_under_xdist_limits_fail_the_test_that_set_them(physics) -> None:
    pytest.importorskip("xdist")
    physics.times(limited=150.0, copy=40.0)
    result = physics.process("--gpuperf", "-n2", "-k", "copy or fast_enough or matmul")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines_random(["*check impossible: *", "*check min_speed_of_light: *"])
    result.stdout.fnmatch_lines(["*of peak*", "test_matmul*7?.? %*"])
