"""Command line, ini file and markers read into frozen settings; the only reader of options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from pytest_gpuperf.settings import (
    DEFAULT_BASELINE,
    MARKER_ONLY,
    PER_BENCHMARK,
    PER_SESSION,
    BenchmarkSettings,
    SessionSettings,
    Setting,
    baseline_name,
    text,
)
from pytest_gpuperf.stated import shown

FIXTURE = "gpubench"
MARKER = "perf"
_NEEDS_MEASURING = ("json", "profile", "nvtx", "override", "force")
_NEEDS_A_GATE = ("strict", "fail_on")
_STORING = ("--gpuperf-save-baseline", "--gpuperf-extend-baseline")
DEFAULT_PROFILES = "gpuperf-profiles"
_WITH_DEFAULT = {**dict.fromkeys(_STORING, DEFAULT_BASELINE), "--gpuperf-profile": DEFAULT_PROFILES}
"""The options whose value may be left out, with what they then mean."""


def add_options(parser: pytest.Parser) -> None:
    """Register every option and ini key."""
    group = parser.getgroup("gpuperf", "performance regression testing (gpuperf)")
    _add_actions(group)
    _add_storing(group)
    _add_profiling(group)
    for setting in (*PER_SESSION.values(), *PER_BENCHMARK.values()):
        _add_setting(parser, group, setting)


def _add_actions(group: pytest.OptionGroup) -> None:
    add = group.addoption
    add(
        "--gpuperf",
        action="store_true",
        default=False,
        dest="gpuperf",
        help="measure every benchmark, compare it with the stored baseline and fail the tests that got significantly "
        "slower",
    )
    add(
        "--gpuperf-only",
        action="store_true",
        default=False,
        dest="gpuperf_only",
        help="deselect the tests that use neither the gpubench fixture nor the perf marker",
    )
    add(
        "--gpuperf-against",
        metavar="REV",
        default=None,
        dest="gpuperf_against",
        help="compare the working tree with git revision REV on this machine, in fresh processes of both in turn, "
        "instead of with a stored baseline",
    )
    add("--gpuperf-json", metavar="PATH", default=None, dest="gpuperf_json", help="write all results and raw trials")
    add(
        "--gpuperf-override",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="gpuperf_override",
        help="set a benchmark setting whatever markers, options and ini say, for a quick look (repeatable)",
    )
    add(
        "--gpuperf-force",
        action="store_true",
        default=False,
        dest="gpuperf_force",
        help="store results even if they were measured under a debugger, a profiler or CUDA_LAUNCH_BLOCKING=1",
    )


def _add_storing(group: pytest.OptionGroup) -> None:
    for option, what in zip(_STORING, ("replace", "add runs to"), strict=True):
        group.addoption(
            option,
            nargs="?",
            const=DEFAULT_BASELINE,
            default=None,
            metavar="NAME",
            dest=option[2:].replace("-", "_"),
            help=f"measure in fresh processes and {what} the entries of the tests that ran, in baseline NAME (default: "
            f"{DEFAULT_BASELINE}); together with --gpuperf, only those whose verdict allows it",
        )


def _add_profiling(group: pytest.OptionGroup) -> None:
    group.addoption(
        "--gpuperf-profile",
        nargs="?",
        const=DEFAULT_PROFILES,
        default=None,
        metavar="DIR",
        dest="gpuperf_profile",
        help="after measuring a benchmark, profile some calls of it and write the table of operators and a Chrome "
        f"trace to DIR (default: {DEFAULT_PROFILES})",
    )
    group.addoption(
        "--gpuperf-nvtx",
        action="store_true",
        default=False,
        dest="gpuperf_nvtx",
        help="mark benchmarks, their phases and trials as NVTX ranges, for a timeline in Nsight Systems",
    )
    group.addoption("--gpuperf-fresh-worker", default=None, dest="gpuperf_fresh_worker", help=_hidden())
    group.addoption("--gpuperf-fork-server", default=None, dest="gpuperf_fork_server", help=_hidden())


def _hidden() -> str:
    import argparse

    return argparse.SUPPRESS


def _add_setting(parser: pytest.Parser, group: pytest.OptionGroup, setting: Setting) -> None:
    extra: dict[str, Any] = {"action": "store_true"} if setting.flag else {"metavar": setting.metavar}
    group.addoption(
        setting.option,
        default=None,
        dest=setting.ini,
        help=f"{setting.help} (default: {setting.default_text})",
        **extra,
    )
    parser.addini(setting.ini, f"{setting.help} (default: {setting.default_text})", default=None)


def spell_out_storing_options(args: list[str]) -> bool:
    """Give a bare `--gpuperf-save-baseline` its default name in place, so that it does not swallow a path after it.

    Return whether there was one.
    """
    options = args[: args.index("--")] if "--" in args else args
    bare = [index for index, argument in enumerate(options) if argument in _WITH_DEFAULT]
    for index in bare:
        args[index] = f"{args[index]}={_WITH_DEFAULT[args[index]]}"
    return bool(bare)


def is_benchmark(item: pytest.Item) -> bool:
    """Whether a test can measure: it uses the fixture, or says so by the marker."""
    return FIXTURE in getattr(item, "fixturenames", ()) or item.get_closest_marker(MARKER) is not None


class Options:
    """The settings of one pytest process, resolved; errors name the place a value came from."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._refuse_unknown_ini_keys()
        self._per_benchmark = dict(self._read(PER_BENCHMARK.values()))
        self._overrides = dict(self._read_overrides())
        self.fresh_worker: str | None = config.getoption("gpuperf_fresh_worker")
        self.fork_server: str | None = config.getoption("gpuperf_fork_server")
        self.session = self._session_settings()
        self._refuse_options_without_effect()
        # Impossible values are errors at start-up even if no test ever asks for them.
        self.defaults = BenchmarkSettings(**{**self._per_benchmark, **self._overrides})

    @property
    def fresh_role(self) -> bool:
        """Whether this process was started to measure for another one."""
        return self.fresh_worker is not None or self.fork_server is not None

    def for_markers(self, markers: Iterable[pytest.Mark], node_id: str) -> BenchmarkSettings:
        """Resolve the settings of the test `node_id`, whose `perf` markers are given closest first."""
        marked: dict[str, object] = {}
        for mark in markers:
            for name, value in self._read_marker(mark, node_id):
                marked.setdefault(name, value)
        if not marked:
            return self.defaults
        values: dict[str, Any] = {**self._per_benchmark, **marked, **self._overrides}
        return BenchmarkSettings(**values)

    def _session_settings(self) -> SessionSettings:
        option = self._config.getoption
        values: dict[str, Any] = dict(self._read(PER_SESSION.values()))
        for storing in ("save_baseline", "extend_baseline"):
            raw = option(f"gpuperf_{storing}")
            if raw is not None:
                values[storing] = _parsed(baseline_name, raw, f"option --gpuperf-{storing.replace('_', '-')}")
        if values.get("save_baseline") and values.get("extend_baseline"):
            raise pytest.UsageError(
                "--gpuperf-save-baseline replaces and --gpuperf-extend-baseline adds: give one of them"
            )
        if option("gpuperf_json") is not None:
            values["json"] = _parsed(text, option("gpuperf_json"), "option --gpuperf-json")
        if option("gpuperf_profile") is not None:
            values["profile"] = _parsed(text, option("gpuperf_profile"), "option --gpuperf-profile")
        values["against"] = self._against(values)
        gate = option("gpuperf") or values["against"] is not None
        return SessionSettings(
            gate=gate, only=option("gpuperf_only"), force=option("gpuperf_force"), nvtx=option("gpuperf_nvtx"), **values
        )

    def _against(self, values: dict[str, Any]) -> str | None:
        revision = self._config.getoption("gpuperf_against")
        if revision is None:
            return None
        place = "option --gpuperf-against"
        if values.get("save_baseline") or values.get("extend_baseline"):
            raise pytest.UsageError(f"{place}: compares two revisions and stores no baseline; save one in another run")
        if self._config.getoption("numprocesses", None) or self._config.getoption("tx", None):
            raise pytest.UsageError(f"{place}: both sides need the device to themselves; leave out -n of pytest-xdist")
        revision = str(_parsed(text, revision, place))
        if revision.startswith("-"):
            raise pytest.UsageError(f"{place}: {shown(revision)} is no revision")
        return revision

    def _refuse_options_without_effect(self) -> None:
        if not self.session.measuring:
            self._refuse((*_NEEDS_MEASURING, *_NEEDS_A_GATE), "nothing would be measured")
        if not self.session.gate:
            self._refuse(_NEEDS_A_GATE, "a session that only stores a baseline fails on no verdict")

    def _refuse(self, names: Iterable[str], reason: str) -> None:
        for name in names:
            if self._config.getoption(f"gpuperf_{name}"):
                spelled = f"--gpuperf-{name.replace('_', '-')}"
                raise pytest.UsageError(f"{spelled} has no effect without --gpuperf: {reason}; add --gpuperf")

    def _read(self, settings: Iterable[Setting]) -> Iterator[tuple[str, Any]]:
        for setting in settings:
            raw = self._config.getoption(setting.ini)
            place = f"option {setting.option}"
            if raw is None:
                raw = _ini_value(self._config, setting.ini)
                place = f"ini key {setting.ini} in {self._config.inipath}"
            if raw is not None and raw != "":
                yield setting.name, _parsed(setting.parse, raw, place)
            elif raw == "" and place.startswith("option"):
                raise pytest.UsageError(f"{place}: got an empty value")

    def _read_overrides(self) -> Iterator[tuple[str, Any]]:
        for pair in self._config.getoption("gpuperf_override"):
            key, equals, value = pair.partition("=")
            name = key.strip().replace("-", "_")
            if not equals or name not in PER_BENCHMARK:
                raise pytest.UsageError(
                    f"option --gpuperf-override={pair}: expected KEY=VALUE with KEY out of "
                    f"{', '.join(PER_BENCHMARK)}{_suggestion(name, PER_BENCHMARK)}"
                )
            yield name, _parsed(PER_BENCHMARK[name].parse, value, f"option --gpuperf-override={pair}")

    def _read_marker(self, mark: pytest.Mark, node_id: str) -> Iterator[tuple[str, object]]:
        if mark.args:
            raise pytest.UsageError(
                f"{node_id}: the perf marker takes keyword arguments only, such as min_effect=0.03; "
                f"got {shown(mark.args[0])}"
            )
        known = {**PER_BENCHMARK, **MARKER_ONLY}
        for name, raw in mark.kwargs.items():
            if name not in known:
                hint = _suggestion(name, known)
                raise pytest.UsageError(
                    f"{node_id}: the perf marker has no argument {name!r}{hint}; it takes {', '.join(known)}"
                )
            yield name, _parsed(known[name].parse, raw, f"{node_id}: perf marker argument {name}")

    def _refuse_unknown_ini_keys(self) -> None:
        known = [setting.ini for setting in (*PER_SESSION.values(), *PER_BENCHMARK.values())]
        places = {key: str(self._config.inipath) for key in _ini_mapping(self._config)}
        # Before pytest 9 what `-o` gives is not among the file's keys.
        places |= {text.partition("=")[0]: "-o" for text in self._config.getoption("override_ini", None) or ()}
        for key, place in places.items():
            if key.startswith("gpuperf") and key not in known:
                hint = _suggestion(key, known, shared="gpuperf_")
                raise pytest.UsageError(f"{place}: unknown ini key {key!r}{hint}")


def _parsed(parse: Any, raw: object, place: str) -> Any:
    try:
        return parse(raw)
    except ValueError as error:
        raise pytest.UsageError(f"{place}: {error}; got {shown(raw)}") from None


def _suggestion(name: str, known: Sequence[str] | Mapping[str, object], shared: str = "") -> str:
    """Say which of `known` is meant; the `shared` beginning does not make names alike."""
    import difflib  # not at the top: only a mistake pays for it

    telling = name[len(shared) :]
    close = difflib.get_close_matches(telling, [each[len(shared) :] for each in known], n=1, cutoff=0.6)
    return f" (did you mean {shared + close[0]!r}?)" if close else ""


def _ini_mapping(config: pytest.Config) -> Mapping[str, Any]:
    # The public `inicfg` is deprecated since pytest 9, and there is no other way to see keys nobody registered.
    found: Mapping[str, Any] | None = getattr(config, "_inicfg", None)
    return config.inicfg if found is None else found


def _ini_value(config: pytest.Config, key: str) -> object:
    stored = _ini_mapping(config).get(key)
    native = getattr(stored, "value", stored)
    # `[tool.pytest]` keeps TOML's own types, which getini would refuse for a key registered as text.
    if isinstance(native, bool | int | float | list):
        return native
    return config.getini(key)
