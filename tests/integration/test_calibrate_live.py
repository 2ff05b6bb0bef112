"""`gpuperf calibrate` from the command to the processes that measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf.cli import main

FEW = ("--baseline-runs", "7", "--confirm-runs", "6", "--comparisons", "10")


@pytest.fixture(autouse=True)
def _quiet(new_suite: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:randomly -p no:cacheprovider -p no:hypothesispytest")


def test_it_measures_what_is_selected(new_suite: Any, capsys: pytest.CaptureFixture[str]) -> None:
    new_suite.add(
        "test_suite.py",
        "\n@pytest.mark.perf(min_effect=0.2)\ndef test_lenient(gpubench, work):\n    gpubench(work, 'lenient')\n",
    )
    assert main(["calibrate", *FEW, "--json", "audit.json", "--", "-k", "op1 or lenient"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Fake GPU: 16 runs of 2 benchmarks, dealt 10 times")
    rows = {row["op"]: row for row in json.loads(Path("audit.json").read_text())["benchmarks"]}
    lenient, strict = rows["test_suite.py::test_lenient"], rows["test_suite.py::test_op[op1]"]
    # The fake device differs by 0.3 % between its processes.
    assert 0.001 < strict["spread"] < 0.006
    assert strict["visible_ratio"] < 1.1 < 1.2 < lenient["visible_ratio"]
    assert not new_suite.storage.exists()


def test_a_failing_test_is_named_and_left_out(new_suite: Any, capsys: pytest.CaptureFixture[str]) -> None:
    new_suite.add("test_suite.py", "\ndef test_wrong(gpubench, work):\n    gpubench(work, 'wrong')\n    assert False\n")
    assert main(["calibrate", *FEW, "test_suite.py", "-k", "wrong or other"]) == 2
    said = capsys.readouterr()
    assert "16 runs of 1 benchmark," in said.out
    assert "FAILED test_suite.py::test_wrong" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "no_benchmark"], "pytest measured no benchmark:"),
        (["absent.py"], "pytest ended with exit code 4:"),
        (["--gpuperf-min-effect=much"], "option --gpuperf-min-effect: "),
    ],
    ids=["none", "absent", "impossible"],
)
def test_nothing_to_measure(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["calibrate", *FEW, "--", *arguments]) == 2
    assert message in capsys.readouterr().err
