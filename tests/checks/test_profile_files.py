"""A profile as files."""

from __future__ import annotations

import json

import pytest

from pytest_gpuperf.checks.profile_files import PROFILED, WAITED, WARMED_UP, write_profile

torch = pytest.importorskip("torch")


def test_a_table_and_a_trace_of_the_recorded_calls(tmp_path, x, device):
    calls = []

    def bind():
        return lambda: calls.append(torch.softmax(x, -1))

    write_profile(torch, bind, tmp_path / "new" / "folder", "softmax", cuda=device != "cpu")
    assert len(calls) == WAITED + WARMED_UP + PROFILED
    table = (tmp_path / "new" / "folder" / "softmax.txt").read_text()
    (row,) = [line for line in table.splitlines() if line.split()[:1] == ["aten::softmax"]]
    assert row.split()[-1] == str(PROFILED)
    trace = json.loads((tmp_path / "new" / "folder" / "softmax.trace.json").read_text())
    assert any(event.get("name") == "aten::softmax" for event in trace["traceEvents"])
