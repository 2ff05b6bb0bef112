"""Settings come from markers, command line, ini files and defaults, in that order, and errors name the place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpuperf import plugin
from pytest_gpuperf.options import Options, is_benchmark, spell_out_storing_options
from pytest_gpuperf.settings import COLUMNS, GROUPINGS, PER_BENCHMARK, PER_SESSION, SORTS, BenchmarkSettings

Read = Callable[..., Options]


@pytest.fixture
def read(pytester: pytest.Pytester) -> Read:
    """Return what reads the options of a pytest that is started with some arguments and an ini file."""

    def options(*arguments: str, ini: str = "[pytest]\n", file: str = "pytest.ini") -> Options:
        (pytester.path / file).write_text(ini)
        return pytester.parseconfigure("-p", "no:cacheprovider", *arguments).stash[plugin.OPTIONS]

    return options


def marked(options: Options, **arguments: Any) -> BenchmarkSettings:
    return options.for_markers([pytest.mark.perf(**arguments).mark], "test_a.py::test_a")


def test_defaults(read: Read) -> None:
    options = read()
    assert options.defaults == BenchmarkSettings()
    assert not options.session.measuring
    assert options.session.baseline == "main"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("timer", "wall", "wall"),
        ("cache", "warm", "warm"),
        ("warmup", "0", 0),
        ("trials", "2", 2),
        ("max_time", "0.5", 0.5),
        ("min_effect", "0.03", 0.03),
        ("min_effect", "3%", 0.03),
        ("min_effect", "0", 0.0),
        ("detectable", "0.2", 0.2),
        ("alpha", "1e-4", 1e-4),
        ("checks", "off", "off"),
    ],
)
def test_a_setting_has_one_name_everywhere(read: Read, name: str, text: str, value: object) -> None:
    spelled = name.replace("_", "-")
    for options in (
        read(f"--gpuperf-{spelled}={text}"),
        read(ini=f"[pytest]\ngpuperf_{name} = {text}\n"),
        read("--gpuperf", f"--gpuperf-override={name}={text}"),
        read("--gpuperf", f"--gpuperf-override={spelled}={text}"),
    ):
        assert getattr(options.defaults, name) == value
    assert getattr(marked(read(), **{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("baseline", "v1.2", "v1.2"),
        ("storage", "some where", "some where"),
        ("device", "cuda:1", "cuda:1"),
        ("runs", "20", 20),
        ("confirm_runs", "1", 1),
        ("confirm_time", "0", 0.0),
        ("fresh_timeout", "0.5", 0.5),
        ("hang_timeout", "7", 7.0),
        ("fail_on", "regressed, new", ("regressed", "new")),
        ("sort", "mean", "mean"),
        ("group_by", "file", "file"),
        ("columns", "name,mean,name", ("name", "mean")),
    ],
)
def test_session_settings_come_from_both(read: Read, name: str, text: str, value: object) -> None:
    for options in (
        read("--gpuperf", f"--gpuperf-{name.replace('_', '-')}={text}"),
        read("--gpuperf", ini=f"[pytest]\ngpuperf_{name} = {text}\n"),
    ):
        assert getattr(options.session, name) == value


def test_every_word_a_setting_names_is_taken(read: Read) -> None:
    for sort in SORTS:
        assert read(f"--gpuperf-sort={sort}").session.sort == sort
    for grouping in GROUPINGS:
        assert read(f"--gpuperf-group-by={grouping}").session.group_by == grouping
    assert read(f"--gpuperf-columns={','.join(COLUMNS)}").session.columns == COLUMNS


@pytest.mark.parametrize("text", ["true", "True", "yes", "on", "1"])
def test_a_switch_in_the_ini_file(read: Read, text: str) -> None:
    assert read("--gpuperf", ini=f"[pytest]\ngpuperf_strict = {text}\n").session.strict
    assert read("--gpuperf", "--gpuperf-strict").session.strict


def test_marker_over_command_line_over_ini_over_default(read: Read) -> None:
    ini = "[pytest]\ngpuperf_min_effect = 0.02\n"
    assert read().defaults.min_effect == 0.01
    assert read(ini=ini).defaults.min_effect == 0.02
    assert read("--gpuperf-min-effect=0.03", ini=ini).defaults.min_effect == 0.03
    assert marked(read("--gpuperf-min-effect=0.03", ini=ini), min_effect=0.04).min_effect == 0.04


def test_an_override_beats_them_all_and_the_last_one_wins(read: Read) -> None:
    options = read("--gpuperf", "--gpuperf-override=min_effect=0.5", "--gpuperf-override=min-effect=0.6")
    assert options.defaults.min_effect == 0.6
    assert marked(options, min_effect=0.04, trials=7) == BenchmarkSettings(min_effect=0.6, trials=7)


def test_the_closest_marker_wins_argument_by_argument(read: Read) -> None:
    on_test, on_class = pytest.mark.perf(trials=5).mark, pytest.mark.perf(trials=9, min_effect=0.2).mark
    settings = read().for_markers([on_test, on_class], "test_a.py::TestA::test_a")
    assert (settings.trials, settings.min_effect) == (5, 0.2)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\ngpuperf_trials = 7\ngpuperf_min_effect = '3%'\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ngpuperf_trials = '7'\ngpuperf_min_effect = 0.03\n"),
        ("tox.ini", "[pytest]\ngpuperf_trials = 7\ngpuperf_min_effect = 0.03\n"),
        ("setup.cfg", "[tool:pytest]\ngpuperf_trials = 7\ngpuperf_min_effect = 0.03\n"),
    ],
)
def test_every_ini_file_is_read(pytester: pytest.Pytester, file: str, text: str) -> None:
    (pytester.path / file).write_text(text)
    options = pytester.parseconfigure().stash[plugin.OPTIONS]
    assert (options.defaults.trials, options.defaults.min_effect) == (7, 0.03)


@pytest.mark.skipif(not hasattr(pytest, "version_tuple") or pytest.version_tuple < (9, 0), reason="new in pytest 9")
def test_the_native_table_keeps_its_types(pytester: pytest.Pytester) -> None:
    text = (
        "[tool.pytest]\ngpuperf_trials = 7\ngpuperf_min_effect = 0.03\ngpuperf_strict = true\n"
        "gpuperf_fail_on = ['regressed', 'new']\ngpuperf_timer = 'wall'\n"
    )
    (pytester.path / "pyproject.toml").write_text(text)
    options = pytester.parseconfigure("--gpuperf").stash[plugin.OPTIONS]
    assert options.defaults == BenchmarkSettings(trials=7, min_effect=0.03, timer="wall")
    assert options.session.strict
    assert options.session.fail_on == ("regressed", "new")


def test_every_setting_has_a_default_that_it_would_take_itself(read: Read) -> None:
    defaults, session = read().defaults, read().session
    for name, setting in {**PER_BENCHMARK, **PER_SESSION}.items():
        value = getattr(defaults if name in PER_BENCHMARK else session, name)
        if value not in (None, ()):
            assert setting.parse(value) == value


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        (["--gpuperf-save-baseline", "tests"], ["--gpuperf-save-baseline=main", "tests"]),
        (["--gpuperf-extend-baseline", "tests"], ["--gpuperf-extend-baseline=main", "tests"]),
        (["--gpuperf-save-baseline=v1", "tests"], ["--gpuperf-save-baseline=v1", "tests"]),
        (["--", "--gpuperf-save-baseline"], ["--", "--gpuperf-save-baseline"]),
        (["-k", "x", "--gpuperf-save-baseline"], ["-k", "x", "--gpuperf-save-baseline=main"]),
    ],
)
def test_a_bare_storing_option_takes_no_path_for_a_name(given: list[str], understood: list[str]) -> None:
    spell_out_storing_options(given)
    assert given == understood


def test_what_is_stored_and_compared(read: Read) -> None:
    assert read("--gpuperf-save-baseline").session.stored_name == "main"
    assert read("--gpuperf-extend-baseline=x").session.stored_name == "x"
    assert read("--gpuperf").session.stored_name is None
    assert read("--gpuperf-save-baseline").session.failing_verdicts == ()
    assert read("--gpuperf", "--gpuperf-strict").session.failing_verdicts == (
        "regressed",
        "inconclusive",
        "new",
        "missing",
        "incomparable",
    )


def test_benchmarks_are_known_by_fixture_or_marker(pytester: pytest.Pytester) -> None:
    items, _ = pytester.inline_genitems(
        pytester.makepyfile(
            """
            import pytest

            def test_fixture(gpubench): pass

            @pytest.mark.perf
            def test_marker(): pass

            @pytest.fixture
            def indirect(gpubench): return gpubench

            def test_indirect(indirect): pass

            def test_neither(): pass
            """
        )
    )
    assert [item.name for item in items if is_benchmark(item)] == ["test_fixture", "test_marker", "test_indirect"]
