"""Results files of benchmarks/kernels.py: rows of several runs in one file, each told with its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FIRST = {"date": "2026-12-01 15:36 UTC", "device": "a card", "torch": "2.11"}
LATER = {**FIRST, "date": "2026-12-02 09:00 UTC"}
NAMES = ["a forward", "a backward", "b forward", "b backward"]


@pytest.fixture(scope="module")
def results(script_module):
    return script_module("kernel_results")


def row(name, times=1.0):
    return {"problem": name, "triton": 10.0, "× flash": times}


def stored(results, folder, names=NAMES, facts=FIRST):
    """Write a file of rows of one run; return its path."""
    kept = results.KernelResults(facts)
    for name in names:
        kept.add("general", row(name), NAMES)
    kept.write(folder / "kernels", [])
    return folder / "kernels.json"


def told(results, path):
    return {results.name_of(one): one for one in json.loads(path.read_text())["results"]["general"]}


def test_a_row_that_is_measured_again_replaces_the_old_one_and_says_when(results, tmp_path):
    path = stored(results, tmp_path)
    again = results.KernelResults.read(path, LATER)
    again.add("general", row("b forward", 2.0), NAMES)
    again.write(tmp_path / "kernels", [])
    rows = told(results, path)
    assert list(rows) == NAMES
    assert rows.pop("b forward") == {**row("b forward", 2.0), "measured": {"date": LATER["date"]}}
    assert all(one == row(name) for name, one in rows.items())
    assert json.loads(path.read_text())["environment"] == FIRST
    text = path.with_suffix(".md").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("| b forward")]
    assert line.rstrip(" |").endswith(LATER["date"])
    assert results.NOTE in text


def test_another_version_is_told_beside_the_date(results, tmp_path):
    again = results.KernelResults.read(stored(results, tmp_path), {**LATER, "torch": "2.12"})
    again.add("general", row("a forward"), NAMES)
    assert f"{LATER['date']}, torch 2.12" in again.text([])


def test_the_run_that_most_rows_are_of_is_the_one_that_needs_no_telling(results, tmp_path):
    again = results.KernelResults.read(stored(results, tmp_path), LATER)
    for name in NAMES[:3]:
        again.add("general", row(name, 2.0), NAMES)
    assert again.environment() == LATER
    [old] = [one for one in again.tables()["general"] if "measured" in one]
    assert old == {**row("b backward"), "measured": {"date": FIRST["date"]}}


def test_a_file_that_was_added_to_keeps_each_rows_run_when_it_is_added_to_again(results, tmp_path):
    path, third = stored(results, tmp_path), {**LATER, "date": "2026-12-03 09:00 UTC"}
    for facts, name in ((LATER, "b forward"), (third, "a backward")):
        again = results.KernelResults.read(path, facts)
        again.add("general", row(name, 2.0), NAMES)
        again.write(tmp_path / "kernels", [])
    dates = {name: one.get("measured", {}).get("date") for name, one in told(results, path).items()}
    assert dates == dict.fromkeys(NAMES) | {"b forward": LATER["date"], "a backward": third["date"]}


def test_where_everything_is_measured_again_nothing_is_left_of_the_old_run(results, tmp_path):
    again = results.KernelResults.read(stored(results, tmp_path), LATER)
    for name in NAMES:
        again.add("general", row(name), NAMES)
    assert FIRST["date"] not in again.text([])
    assert results.NOTE not in again.text([])


def test_a_new_row_takes_its_place_in_the_table(results, tmp_path):
    again = results.KernelResults.read(stored(results, tmp_path, [NAMES[0], "gone", NAMES[3]]), LATER)
    again.add("general", row(NAMES[1]), NAMES)
    assert [results.name_of(one) for one in again.tables()["general"]] == [NAMES[0], NAMES[1], NAMES[3], "gone"]
    assert again.lacking({"general": NAMES}) == [f"general: {name}" for name in (NAMES[0], *NAMES[2:])]


def test_rows_of_another_device_are_refused(results, tmp_path):
    with pytest.raises(SystemExit, match=r"is of a card, this is another: measure into another file"):
        results.KernelResults.read(stored(results, tmp_path), {**LATER, "device": "another"})


@pytest.mark.parametrize("content", ["", "[]", '{"results": {}}', '{"environment": 1}'])
def test_what_is_no_results_file_is_refused_by_name(results, tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(SystemExit, match=r"other\.json is no results file"):
        results.KernelResults.read(path, LATER)


def test_the_stored_results_are_read_and_told_as_they_are(results):
    for name in ("kernels", "kernels_more"):
        path = BENCHMARKS / "results" / f"{name}.json"
        device = json.loads(path.read_text())["environment"]["device"]
        text = results.KernelResults.read(path, {**LATER, "device": device}).text([])
        stored = path.with_suffix(".md").read_text()
        assert text[text.index("## ") :] == stored[stored.index("## ") :]


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        (["x200"], {"general": ["2×4×200 forward"]}),
        (["×200", "softmax"], {"general": ["2×4×200 forward"], "launched": ["softmax"]}),
        ([], {"general": ["2×4×200 forward", "2×4×40 forward"], "launched": ["softmax", "gelu"]}),
    ],
)
def test_rows_are_chosen_by_a_part_of_their_names(results, parts, found):
    names = {"general": ["2×4×200 forward", "2×4×40 forward"], "launched": ["softmax", "gelu"]}
    assert results.chosen(names, parts) == found


def test_a_part_that_no_row_has_is_refused(results):
    with pytest.raises(SystemExit, match="--rows 'x300': no row of general has this"):
        results.chosen({"general": ["2×4×200 forward"]}, ["x200", "x300"])
