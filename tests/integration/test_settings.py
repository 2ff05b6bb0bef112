"""What is set wrongly is refused at once, with one message that names the place, in plain sessions too."""

from __future__ import annotations

import pytest

NATIVE = pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="pytest 9 reads the table")
ONE_TEST = "def test_a(gpubench):\n    gpubench(int)\n"


def refused(result: pytest.RunResult) -> str:
    """Return the one message of a run that was refused."""
    assert result.ret == 4
    lines = [line for line in result.errlines + result.outlines if line.startswith("ERROR:")]
    assert len(lines) == 1
    text = "\n".join(result.errlines + result.outlines)
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    return lines[0]


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("min_efect=0.03", "no argument 'min_efect' (did you mean 'min_effect'?)"),
        ("bogus=1", "no argument 'bogus'; it takes timer, "),
        ("0.03", "takes keyword arguments only, such as min_effect=0.03; got 0.03"),
        ("min_effect=3", "argument min_effect: must be a share of at least 0 and below 1; for 3 % write 0.03; got 3"),
        ("min_effect=float('nan')", "argument min_effect: must be a finite number; got nan"),
        ("trials=1", "argument trials: must be a whole number from 2 to 1000000; got 1"),
        ("trials=2.5", "argument trials: must be a whole number; got 2.5"),
        ("trials=True", "argument trials: must be a whole number; got True"),
        ("alpha=0", "argument alpha: must be between 0 and 0.5; got 0"),
        ("timer='fast'", "argument timer: must be one of auto, events, graph, kernel, wall; got 'fast'"),
        ("timer=['wall']", "argument timer: must be one of auto, events, graph, kernel, wall; got ['wall']"),
        ("runs=3", "no argument 'runs'"),
        ("group=''", "argument group: must be a non-empty text; got ''"),
    ],
)
def test_wrong_markers(pytester: pytest.Pytester, marker: str, message: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.perf({marker})\n{ONE_TEST}")
    error = refused(pytester.runpytest_inprocess())
    assert message in error
    assert "test_wrong_markers.py::test_a: " in error


@pytest.mark.parametrize("mode", [("--gpuperf",), ("--collect-only",), ("--gpuperf-save-baseline",)])
def test_wrong_markers_in_every_kind_of_session(pytester: pytest.Pytester, mode: tuple[str, ...]) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.perf(bogus=1)\n{ONE_TEST}")
    assert "no argument 'bogus'" in refused(pytester.runpytest_inprocess(*mode))


@pytest.mark.parametrize(
    ("ini", "message"),
    [
        ("gpuperf_min_efect = 0.03", "unknown ini key 'gpuperf_min_efect' (did you mean 'gpuperf_min_effect'?)"),
        ("gpuperf_bogus = 1", "unknown ini key 'gpuperf_bogus'"),
        ("gpuperf-min-effect = 1", "unknown ini key 'gpuperf-min-effect' (did you mean 'gpuperf_min_effect'?)"),
        ("gpuperf_min_effect = much", "pytest.ini: must be a number; got 'much'"),
        ("gpuperf_runs = 0", "pytest.ini: must be a whole number from 1 to 1000; got '0'"),
        ("gpuperf_strict = perhaps", "pytest.ini: must be true or false; got 'perhaps'"),
        ("gpuperf_fail_on = unchanged", "pytest.ini: must be words out of regressed, inconclusive, new, missing, "),
        ("gpuperf_baseline = ../x", "pytest.ini: must be a name of letters, digits"),
    ],
)
def test_wrong_ini_keys(pytester: pytest.Pytester, ini: str, message: str) -> None:
    (pytester.path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    pytester.makepyfile(ONE_TEST)
    for mode in ((), ("--gpuperf",)):
        error = refused(pytester.runpytest_inprocess(*mode))
        assert message in error
        assert "pytest.ini" in error


@pytest.mark.parametrize("key", ["gpuperf_min_efect=0.03", "gpuperf_min_effect=much"])
def test_wrong_ini_keys_on_the_command_line(pytester: pytest.Pytester, key: str) -> None:
    pytester.makepyfile(ONE_TEST)
    assert key.partition("=")[0] in refused(pytester.runpytest_inprocess("-o", key))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\ngpuperf_bogus = 1\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ngpuperf_trials = true\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ngpuperf_trials = 1.5\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ngpuperf_timer = 3\n"),
        pytest.param("pyproject.toml", "[tool.pytest]\ngpuperf_trials = 1\n", marks=NATIVE),
        pytest.param("pyproject.toml", "[tool.pytest]\ngpuperf_fail_on = ['regressed', 'bogus']\n", marks=NATIVE),
        pytest.param("pyproject.toml", "[tool.pytest]\ngpuperf_trials = 1979-05-27\n", marks=NATIVE),
    ],
)
def test_wrong_values_in_pyproject(pytester: pytest.Pytester, file: str, text: str) -> None:
    (pytester.path / file).write_text(text)
    pytester.makepyfile(ONE_TEST)
    assert file in refused(pytester.runpytest_inprocess())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpuperf-min-effect=200%"], "option --gpuperf-min-effect: must be a share of at least 0 and below 1"),
        (["--gpuperf-min-effect="], "option --gpuperf-min-effect: got an empty value"),
        (["--gpuperf-trials=nan"], "option --gpuperf-trials: must be a whole number; got 'nan'"),
        (["--gpuperf-max-time=inf"], "option --gpuperf-max-time: must be a finite number; got 'inf'"),
        (["--gpuperf-timer=quick"], "option --gpuperf-timer: must be one of auto, events, graph, kernel, wall; got "),
        (["--gpuperf-columns=name,bogus"], "option --gpuperf-columns: must be words out of name, mean, "),
        (["--gpuperf-save-baseline=a/b"], "option --gpuperf-save-baseline: must be a name of letters, digits"),
        (["--gpuperf-save-baseline="], "option --gpuperf-save-baseline: must be a name of letters, digits"),
        (["--gpuperf", "--gpuperf-override=bogus=1"], "option --gpuperf-override=bogus=1: expected KEY=VALUE"),
        (["--gpuperf", "--gpuperf-override=trials"], "option --gpuperf-override=trials: expected KEY=VALUE"),
        (["--gpuperf", "--gpuperf-override=trials=x"], "option --gpuperf-override=trials=x: must be a whole number"),
        (["--gpuperf", "--gpuperf-override=runs=3"], "option --gpuperf-override=runs=3: expected KEY=VALUE"),
        (
            ["--gpuperf-save-baseline", "--gpuperf-extend-baseline"],
            "--gpuperf-save-baseline replaces and --gpuperf-extend-baseline adds: give one of them",
        ),
        (["--gpuperf-json=x.json"], "--gpuperf-json has no effect without --gpuperf"),
        (["--gpuperf-strict"], "--gpuperf-strict has no effect without --gpuperf"),
        (["--gpuperf-fail-on=new"], "--gpuperf-fail-on has no effect without --gpuperf"),
        (["--gpuperf-override=trials=3"], "--gpuperf-override has no effect without --gpuperf"),
        (["--gpuperf-force"], "--gpuperf-force has no effect without --gpuperf"),
        (["--gpuperf-strict", "--gpuperf-save-baseline"], "--gpuperf-strict has no effect without --gpuperf"),
        (["--gpuperf-fail-on=new", "--gpuperf-save-baseline"], "--gpuperf-fail-on has no effect without --gpuperf"),
    ],
)
def test_wrong_options(pytester: pytest.Pytester, arguments: list[str], message: str) -> None:
    pytester.makepyfile(ONE_TEST)
    assert message in refused(pytester.runpytest_inprocess(*arguments))


@pytest.mark.parametrize("device", ["bogus", "cpu:7:8", pytest.param("cuda:99", marks=pytest.mark.slow)])
def test_a_device_that_is_not_there(pytester: pytest.Pytester, device: str) -> None:
    pytester.makepyfile(ONE_TEST)
    # In a process of its own: torch cannot be imported, forgotten and imported again.
    assert device in refused(pytester.runpytest_subprocess("--gpuperf", f"--gpuperf-device={device}"))


def test_a_storage_of_an_unknown_kind(suite) -> None:
    error = refused(suite.gate("--gpuperf-storage=s3://bucket/x"))
    assert "s3://bucket/x" in error
    assert "pytest-gpuperf[remote]" in error


def test_strict_in_the_ini_file_does_not_disturb_plain_sessions(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ngpuperf_strict = true\ngpuperf_fail_on = new\n")
    pytester.makepyfile(ONE_TEST)
    assert pytester.runpytest_inprocess().ret == 0


def test_markers_are_known_to_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("from pytest_gpuperf import perf\n@perf(trials=3)\n" + ONE_TEST)
    assert pytester.runpytest_inprocess("--strict-markers").ret == 0
    pytester.runpytest_inprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.perf(*min_effect=0.03*"])


def test_help_names_every_option(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_inprocess("--help").stdout.str()
    for option in ("--gpuperf ", "--gpuperf-save-baseline", "--gpuperf-min-effect", "--gpuperf-fresh-timeout"):
        assert option in text
    assert "gpuperf_min_effect" in text
    assert "--gpuperf-fresh-worker" not in text
    assert "--gpuperf-fork-server" not in text
