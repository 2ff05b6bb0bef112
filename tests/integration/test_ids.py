"""Tests of every name get entries of their own, in strict JSON, and are found again in every session and process."""

from __future__ import annotations

import json
import re

import pytest

from pytest_gpuperf.measure.plan import KEY_LIMIT_CHARACTERS, NODE_ID_LIMIT_CHARACTERS

AWKWARD = r"""
import pytest

PARAMETERS = {
    "long": "x" * 5000,
    "unicode": "größe-日本語-🙂",
    "combining": "e\u0301",
    "path": "../../etc/passwd",
    "shell": "$(rm -rf /); `x` | > \"'*?",
    "brackets": "a[b]::c",
    "control": "a\x00\x1b[31m\n\t",
    "surrogate": "\ud800",
    "blank": " ",
    "dash": "-",
    "empty": "",
    "percent": "%s %(x)s {y}",
    "markup": "<&>]]>",
    "at": "x@group",
}


@pytest.mark.parametrize("value", PARAMETERS.values(), ids=PARAMETERS.values())
def test_named(gpubench, work, value):
    gpubench(work, "a")


OBJECTS = [object(), object(), lambda: 0, [1] * 10**6, {"a": b"\xff"}, b"\xff\x00", 1e300, None]


@pytest.mark.parametrize("value", OBJECTS)
def test_objects(gpubench, work, value):
    gpubench(work, "a")


@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", ["x" * 300 + "1", "x" * 300 + "2"])
def test_alike_at_the_start(gpubench, work, a, b):
    for name in ("one", "two", "ü" * 300, "a/b"):
        gpubench.run(work, ["a"], name=name)


class TestOne:
    def test_same(self, gpubench, work):
        gpubench(work, "a")


class TestTwo:
    def test_same(self, gpubench, work):
        gpubench(work, "a")
"""
SAME = "def test_same(gpubench, work):\n    gpubench(work, 'a')\n"


@pytest.fixture
def awkward(new_suite):
    """A suite of tests with names of every kind, and two files with a function of one name."""
    new_suite.write("test_suite.py", AWKWARD)
    new_suite.write("one/test_same.py", SAME)
    new_suite.write("two/test_same.py", SAME)
    new_suite.write("with space & ümlaut/test_same.py", SAME)
    return new_suite


def test_ids_of_every_kind(awkward) -> None:
    count = 14 + 8 + 6 * 4 + 2 + 3
    options = ("--import-mode=importlib", "--gpuperf-trials=2", "--gpuperf-json=out.json", "--junitxml=junit.xml")
    result = awkward.run("--gpuperf-save-baseline", "--gpuperf-runs=2", *options)
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"{count} measured = 0 in the baseline + {count} new"])
    text = awkward.baseline_file().read_text()
    entries = json.loads(text)["entries"]
    assert len(entries) == count
    assert len({json.dumps(entry["benchmark"]) for entry in entries.values()}) == count
    for key, entry in entries.items():
        assert re.fullmatch(r"[A-Za-z0-9._-]+", key)
        assert len(key) <= KEY_LIMIT_CHARACTERS
        assert len(entry["benchmark"]["node_id"]) <= NODE_ID_LIMIT_CHARACTERS
        assert entry["benchmark"]["node_id"].isprintable()
    assert len(text) < 200_000
    again = awkward.run("--gpuperf", "--gpuperf-confirm-time=0", "--gpuperf-confirm-runs=1", *options)
    again.stdout.fnmatch_lines([f"{count} measured = {count} in the baseline + 0 new"])
    assert len(awkward.junit_suite()) == 14 + 8 + 6 + 2 + 3
    assert len(awkward.json("out.json")["outcomes"]) == count


def test_suspects_of_every_kind_are_found_in_fresh_processes(awkward) -> None:
    options = ("--import-mode=importlib", "--gpuperf-trials=2", "-k", "named or objects or same")
    assert awkward.run("--gpuperf-save-baseline", "--gpuperf-runs=10", *options).ret == 0
    awkward.times(a=150.0)
    result = awkward.gate(*options, "--junitxml=junit.xml")
    assert result.ret == 1
    result.assert_outcomes(failed=27, deselected=6)
    assert "could not be confirmed" not in result.stdout.str()
    assert awkward.junit_suite().get("failures") == "27"


def test_ids_do_not_depend_on_where_pytest_is_started(suite, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.write("one/test_same.py", SAME)
    assert suite.run("--gpuperf-save-baseline", "--gpuperf-runs=1", "one").ret == 0
    assert "one/test_same.py::test_same" in suite.entries()
    monkeypatch.chdir(suite.path / "one")
    suite.gate().stdout.fnmatch_lines(["1 measured + 11 deselected = 12 in the baseline + 0 new"])
