"""The documentation says what the code does: options, commands, hooks and examples."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_gpuperf import hookspecs, options
from pytest_gpuperf.cli import COMMANDS
from pytest_gpuperf.commands import calibrate, calibrate_live
from pytest_gpuperf.measure.samples import RunRecord
from pytest_gpuperf.report.columns import COLUMN_NAMES
from pytest_gpuperf.settings import MARKER_ONLY, PER_BENCHMARK, PER_SESSION, Setting
from pytest_gpuperf.store import schema

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "Makefile"])
REFERENCE = ROOT / "docs" / "reference"


def _fences(text: str, language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def _registered_options() -> dict[str, bool]:
    """Every option of the plugin, and whether pytest's help shows it."""
    parser = pytest.Parser(_ispytest=True)
    options.add_options(parser)
    actions = [action for option in parser.getgroup("gpuperf").options for action in [option.attrs()]]
    names = [option.names()[0] for option in parser.getgroup("gpuperf").options]
    return {name: attrs.get("help") != argparse.SUPPRESS for name, attrs in zip(names, actions, strict=True)}


@pytest.fixture(params=PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def page(request: pytest.FixtureRequest) -> str:
    path: Path = request.param
    return path.read_text(encoding="utf-8")


def _row(setting: Setting) -> str:
    value = "" if setting.flag or not setting.metavar else "=" + setting.metavar.replace("|", "\\|")
    return f"| `{setting.name}` | `{setting.option}{value}` | {setting.default_text} | {setting.help} |"


@pytest.mark.parametrize("setting", [*PER_BENCHMARK.values(), *PER_SESSION.values()], ids=lambda s: s.name)
def test_every_setting_has_its_row(setting: Setting) -> None:
    assert _row(setting) in (REFERENCE / "options.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("setting", MARKER_ONLY.values(), ids=lambda s: s.name)
def test_every_marker_argument_is_explained(setting: Setting) -> None:
    assert f"`{setting.name}`: {setting.help}" in (REFERENCE / "options.md").read_text(encoding="utf-8")


def test_every_option_is_in_the_reference() -> None:
    text = (REFERENCE / "options.md").read_text(encoding="utf-8")
    shown = [name for name, is_shown in _registered_options().items() if is_shown]
    assert len(shown) > 20
    assert [name for name in shown if not re.search(rf"`{name}[\[=`]", text)] == []


def test_pages_name_only_options_that_exist(page: str) -> None:
    named = set(re.findall(r"--gpuperf[a-z-]*", page))
    assert named - _registered_options().keys() == set()


def test_pages_name_only_ini_keys_that_exist(page: str) -> None:
    known = {setting.ini for setting in (*PER_BENCHMARK.values(), *PER_SESSION.values())}
    named = {key for fence in _fences(page, "toml") for key in re.findall(r"^(gpuperf_\w+) =", fence, re.MULTILINE)}
    assert named - known == set()


def test_pages_name_only_commands_that_exist(page: str) -> None:
    named = set(re.findall(r"(?:^\$ |`)gpuperf ([a-z]+)", page, re.MULTILINE))
    assert named - COMMANDS.keys() == set()


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (path.parent / target).exists()] == []


def test_every_command_is_in_the_reference() -> None:
    text = (REFERENCE / "command.md").read_text(encoding="utf-8")
    assert [name for name, (_, summary) in COMMANDS.items() if f"| `gpuperf {name}` | {summary} |" not in text] == []


def test_every_column_of_the_table_is_explained() -> None:
    _, _, section = (REFERENCE / "options.md").read_text(encoding="utf-8").partition("## The columns of the table\n")
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == sorted(COLUMN_NAMES)


def test_every_field_of_a_run_is_explained() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (REFERENCE / "storage.md").read_text(encoding="utf-8"), re.MULTILINE)
    explained = {name for cell in rows for name in re.findall(r"`(\w+)`", cell)}
    assert set(RunRecord.__struct_fields__) == explained


def test_every_hook_has_a_docstring() -> None:
    hooks = [hook for name, hook in vars(hookspecs).items() if name.startswith("pytest_gpuperf_")]
    assert len(hooks) > 4
    assert all(hook.__doc__ for hook in hooks)


def test_the_storage_page_shows_a_real_baseline_and_the_whole_history() -> None:
    from pytest_gpuperf.store.codec import decode_baseline, encode_baseline

    text = (REFERENCE / "storage.md").read_text(encoding="utf-8")
    (example,) = _fences(text, "json")
    baseline = decode_baseline(example.encode(), "storage.md")
    assert encode_baseline(baseline, "storage.md") == example.encode()
    assert json.loads(example)["schema"] == schema.SCHEMA_VERSION
    for version in range(1, schema.SCHEMA_VERSION + 1):
        assert f"\n| {version} | " in text


def test_the_calibration_page_shows_tables_as_they_are_printed() -> None:
    tables = _fences((ROOT / "docs" / "how-to" / "calibrate.md").read_text(encoding="utf-8"), "text")
    shown = [re.split(r"\s{2,}", table.splitlines()[2]) for table in tables]
    assert shown == [["name", *calibrate_live.HEADINGS], [*calibrate.HEADINGS]]


def _examples() -> list[tuple[str, str]]:
    found = []
    for path in PAGES:
        for number, code in enumerate(_fences(path.read_text(encoding="utf-8"), "python"), start=1):
            found.append((f"{path.stem.replace('-', '_')}_{number}".lower(), code))
    return found


def test_examples_pass_under_plain_pytest(tmp_path: Path) -> None:
    examples = _examples()
    assert len(examples) > 5
    for name, code in examples:
        # Hooks go where pytest finds them; everything else is a test file.
        folder = tmp_path / name
        folder.mkdir()
        (folder / ("conftest.py" if "def pytest_" in code else f"test_{name}.py")).write_text(code, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib --strict-markers\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    wanted = sum(len(re.findall(r"^def test_", code, re.MULTILINE)) for _, code in examples)
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None
    assert int(passed[1]) >= wanted
