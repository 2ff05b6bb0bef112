"""What can be set: every setting's name, default, limits and help; read from options, ini and markers by `options`."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

TimerChoice = Literal["auto", "events", "graph", "kernel", "wall"]
CacheMode = Literal["cold", "warm"]
CheckMode = Literal["off", "warn", "fail"]

DEFAULT_BASELINE = "main"
CHECKS = (
    "patched", "state", "lazy", "caching", "compiling", "kernels", "sync", "pageable", "work", "streams", "stale",
    "aliasing", "mutation", "output", "constant", "precision", "gradients",
)  # fmt: skip
"""The names of all checks."""
LONGEST_S = 1e8
"""Three years."""
STRICT_FAILURES = ("regressed", "inconclusive", "new", "missing", "incomparable")

Parser = Callable[[object], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSettings:
    """How one benchmark is measured and judged; every field can be set by the marker of the same name."""

    timer: TimerChoice = "auto"
    cache: CacheMode = "cold"
    warmup: int = 10
    trials: int | None = None
    max_time: float = 1.0
    min_effect: float = 0.01
    detectable: float = 0.05
    alpha: float = 1e-3
    checks: CheckMode = "warn"
    allow: tuple[str, ...] = ()
    extra_checks: tuple[str, ...] = ()
    max_kernels: int | None = None
    max_peak_memory: int | None = None
    min_speed_of_light: float | None = None
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What holds for the whole session, whatever the benchmark."""

    gate: bool = False
    save_baseline: str | None = None
    extend_baseline: str | None = None
    baseline: str = DEFAULT_BASELINE
    against: str | None = None
    storage: str | None = None
    only: bool = False
    device: str | None = None
    runs: int = 10
    confirm_runs: int = 7
    confirm_time: float = 120.0
    fresh_timeout: float = 120.0
    hang_timeout: float = 120.0
    fresh_start: str = "auto"
    fail_on: tuple[str, ...] = ("regressed",)
    strict: bool = False
    force: bool = False
    ceilings: str = "cached"
    json: str | None = None
    profile: str | None = None
    nvtx: bool = False
    sort: str = "order"
    group_by: str = "none"
    columns: tuple[str, ...] = ()

    @property
    def measuring(self) -> bool:
        """Whether benchmarks are measured at all, rather than called once."""
        return self.gate or self.save_baseline is not None or self.extend_baseline is not None

    @property
    def stored_name(self) -> str | None:
        """The baseline that this session writes to, if it writes to one."""
        return self.save_baseline if self.save_baseline is not None else self.extend_baseline

    @property
    def failing_verdicts(self) -> tuple[str, ...]:
        """The verdicts that fail a test in this session; a session that only stores fails on none."""
        if not self.gate:
            return ()
        return tuple(dict.fromkeys((*self.fail_on, *(STRICT_FAILURES if self.strict else ()))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting under its one name: `min_effect` the marker argument, `gpuperf_min_effect` the ini key,
    `--gpuperf-min-effect` the option.
    """

    name: str
    parse: Parser
    help: str
    metavar: str | None = None
    default_text: str = ""
    flag: bool = False

    @property
    def option(self) -> str:
        """The command-line spelling."""
        return "--gpuperf-" + self.name.replace("_", "-")

    @property
    def ini(self) -> str:
        """The ini key."""
        return "gpuperf_" + self.name


def _number(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, numbers.Real | str):
        raise ValueError("must be a number")
    try:
        value = float(raw)
    except (ValueError, OverflowError):
        raise ValueError("must be a number") from None
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return value


def number(*, above: float, below: float) -> Parser:
    """A parser of numbers strictly between `above` and `below`."""

    def parse(raw: object) -> float:
        value = _number(raw)
        if not above < value < below:
            raise ValueError(f"must be between {above:g} and {below:g}")
        return value

    return parse


def seconds(*, or_none: bool = False) -> Parser:
    """A parser of durations above 0, or also of 0; longer ones than `LONGEST_S` overflow what waits for them."""

    def parse(raw: object) -> float:
        value = _number(raw)
        if value < 0 or (value == 0 and not or_none):
            raise ValueError(f"must be a number of seconds {'from' if or_none else 'above'} 0")
        if value > LONGEST_S:
            raise ValueError(f"must be a number of seconds up to {LONGEST_S:.0f}")
        return value

    return parse


def share(raw: object) -> float:
    """Parse a share of one, from 0 up to but not including 1, such as 0.03; `3%` is understood too."""
    in_percent = isinstance(raw, str) and raw.strip().endswith("%")
    value = _number(str(raw).strip()[:-1]) / 100 if in_percent else _number(raw)
    if not 0 <= value < 1:
        hint = f"; for {value:g} % write {value / 100:g}" if 1 <= value < 100 and not in_percent else ""
        raise ValueError(f"must be a share of at least 0 and below 1{hint}")
    return value


def size(raw: object) -> int:
    """Parse a number of bytes, such as `1500000`, `1.5 GiB` or `600 MB`."""
    problem = ValueError("must be a number of bytes above 0, such as 1500000, '1.5 GiB' or '600 MB'")
    if isinstance(raw, bool) or not isinstance(raw, numbers.Real | str):
        raise problem
    try:
        found = re.fullmatch(r"\s*([0-9.e+]+)\s*([kKMGT]i?)?B?\s*", str(raw))
        count_bytes = float(found[1]) * _unit_bytes(found[2] or "") if found else 0.0
    except ValueError:
        raise problem from None
    if not 1 <= count_bytes < math.inf:
        raise problem
    return int(count_bytes)


def _unit_bytes(prefix: str) -> int:
    power = "KMGT".find(prefix[:1].upper()) + 1 if prefix else 0
    return int((1024 if prefix.endswith("i") else 1000) ** power)


def whole(*, least: int, most: int = 1_000_000) -> Parser:
    """A parser of whole numbers from `least` to `most`."""

    def parse(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, numbers.Integral | str):
            raise ValueError("must be a whole number")
        try:
            value = int(raw)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return value

    return parse


def choice(*allowed: str) -> Parser:
    """A parser of one word out of `allowed`."""

    def parse(raw: object) -> str:
        if raw not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return str(raw)

    return parse


def words(*allowed: str) -> Parser:
    """A parser of words out of `allowed`, as a list or separated by commas."""

    def parse(raw: object) -> tuple[str, ...]:
        items = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(items, list | tuple):
            raise ValueError(f"must be words out of {', '.join(allowed)}, separated by commas")
        found = tuple(str(item).strip() for item in items if str(item).strip())
        unknown = [word for word in found if word not in allowed]
        if unknown or not found:
            raise ValueError(f"must be words out of {', '.join(allowed)}, separated by commas")
        return tuple(dict.fromkeys(found))

    return parse


def text(raw: object) -> str:
    """Parse a non-empty text."""
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError("must be a non-empty text")
    return raw


def baseline_name(raw: object) -> str:
    """Parse a baseline's name: letters, digits, `.`, `_` and `-`, 64 at most, not starting with a dot or dash."""
    if not isinstance(raw, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", raw):
        raise ValueError(
            "must be a name of letters, digits, '.', '_' and '-' (64 at most, not starting with '.' or '-'); "
            "to give a path to pytest, put it before the option or write the option with =NAME"
        )
    return raw


def storing_option(how: Literal["save", "extend"], name: str) -> str:
    """Return how to spell the option that stores into baseline `name`."""
    return f"--gpuperf-{how}-baseline" + ("" if name == DEFAULT_BASELINE else f"={name}")


def switch(raw: object) -> bool:
    """Parse yes or no."""
    if isinstance(raw, bool):
        return raw
    lowered = str(raw).strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError("must be true or false")


VERDICTS_THAT_CAN_FAIL = STRICT_FAILURES
SORTS = ("order", "name", "mean", "ratio", "verdict")
GROUPINGS = ("none", "file", "function", "param", "group")
COLUMNS = (
    "name", "mean", "median", "std", "min", "p5", "p95", "error", "trials", "runs", "host", "clock", "memory",
    "bandwidth", "compute", "share", "bound", "ratio", "verdict",
)  # fmt: skip

PER_BENCHMARK: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            name="timer",
            parse=choice("auto", "events", "graph", "kernel", "wall"),
            metavar="auto|events|graph|kernel|wall",
            default_text="auto",
            help="how a call is timed: 'events' by device events queued behind a spin, 'graph' by replays of many "
            "calls in a CUDA graph, 'kernel' by the profiler's durations of its kernels, 'wall' by the host's clock, "
            "launch included; 'auto' takes what the baseline was timed with, else graph on a GPU for calls under 40 us "
            "and for launch-bound ones, where they can be captured, events for all others, and wall on a CPU",
        ),
        Setting(
            name="cache",
            parse=choice("cold", "warm"),
            metavar="cold|warm",
            default_text="cold",
            help="whether the L2 cache is flushed before every trial (cold) or left as it is (warm)",
        ),
        Setting(
            name="warmup",
            parse=whole(least=0),
            metavar="CALLS",
            default_text="10",
            help="least number of calls before timing starts",
        ),
        Setting(
            name="trials",
            parse=whole(least=2),
            metavar="N",
            default_text="as many as the precision needs",
            help="time exactly N trials a run instead of stopping by precision",
        ),
        Setting(
            name="max_time",
            parse=seconds(),
            metavar="SECONDS",
            default_text="1",
            help="longest time spent on the trials of one benchmark in one run",
        ),
        Setting(
            name="min_effect",
            parse=share,
            metavar="SHARE",
            default_text="0.01",
            help="slower by less than this share never fails",
        ),
        Setting(
            name="detectable",
            parse=share,
            metavar="SHARE",
            default_text="0.05",
            help="the slowdown that must be ruled out before a benchmark is called unchanged",
        ),
        Setting(
            name="alpha",
            parse=number(above=0, below=0.5),
            metavar="P",
            default_text="0.001",
            help="largest p-value at which a slowdown is called significant",
        ),
        Setting(
            name="checks",
            parse=choice("off", "warn", "fail"),
            metavar="off|warn|fail",
            default_text="warn",
            help="what a finding of the checks does",
        ),
        Setting(
            name="allow",
            parse=words(*CHECKS),
            metavar="CHECKS",
            default_text="none",
            help="names of checks, separated by commas, that are not to find anything",
        ),
        Setting(
            name="extra_checks",
            parse=words("sync"),
            metavar="CHECKS",
            default_text="none",
            help="checks that are made though the device gives no reason to: 'sync' on a CPU names the lines that "
            "would wait for a GPU",
        ),
        Setting(
            name="max_kernels",
            parse=whole(least=1),
            metavar="N",
            default_text="any number",
            help="most kernels, copies and memsets that one call may launch on the GPU; the test fails beyond it",
        ),
        Setting(
            name="max_peak_memory",
            parse=size,
            metavar="SIZE",
            default_text="any amount",
            help="most device memory that one call may hold at a time, in bytes or such as '1.5 GiB'; the test fails "
            "beyond it",
        ),
        Setting(
            name="min_speed_of_light",
            parse=share,
            metavar="SHARE",
            default_text="any share",
            help="least share of this machine's ceilings that a call with stated bytes_moved or flops must reach; the "
            "test fails where the whole interval of its mean lies below it",
        ),
    )
}
MARKER_ONLY: dict[str, Setting] = {
    "group": Setting(name="group", parse=text, help="the group the benchmark is listed under with --gpuperf-group-by"),
}
PER_SESSION: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            name="baseline",
            parse=baseline_name,
            metavar="NAME",
            default_text=DEFAULT_BASELINE,
            help="the stored baseline to compare with",
        ),
        Setting(
            name="storage",
            parse=text,
            metavar="DIR",
            default_text=".gpuperf beside the ini file",
            help="where baselines and session records are kept",
        ),
        Setting(
            name="device",
            parse=text,
            metavar="DEVICE",
            default_text="the accelerator where there is one, else the CPU",
            help="the device to measure on, such as cuda:1 or cpu",
        ),
        Setting(
            name="runs",
            parse=whole(least=1, most=1000),
            metavar="N",
            default_text="10",
            help="runs (processes) that a stored baseline is measured in; at least 5 to gate by it",
        ),
        Setting(
            name="confirm_runs",
            parse=whole(least=1, most=1000),
            metavar="N",
            default_text="7",
            help="fresh processes that a suspect benchmark is measured in again",
        ),
        Setting(
            name="confirm_time",
            parse=seconds(or_none=True),
            metavar="SECONDS",
            default_text="120",
            help="time that may be spent on fresh runs of benchmarks that are not suspect but too noisy to tell",
        ),
        Setting(
            name="fresh_timeout",
            parse=seconds(),
            metavar="SECONDS",
            default_text="120",
            help="how long a fresh process may take to start, or for one test beyond ten times what that test took "
            "in this session, before it is ended as hung",
        ),
        Setting(
            name="hang_timeout",
            parse=seconds(),
            metavar="SECONDS",
            default_text="120",
            help="how long the device may work on what one call gave it, the call itself not counted, before the "
            "test fails and the session stops: a kernel that does not end can only be ended with its process",
        ),
        Setting(
            name="fresh_start",
            parse=choice("auto", "fork", "interpreter"),
            metavar="auto|fork|interpreter",
            default_text="auto",
            help="how a fresh process starts: as a fork of one that has imported the suite but not touched the device, "
            "or as a new interpreter; 'auto' forks for a GPU where it can and takes a new interpreter for the CPU",
        ),
        Setting(
            name="fail_on",
            parse=words(*VERDICTS_THAT_CAN_FAIL),
            metavar="VERDICTS",
            default_text="regressed",
            help="the verdicts that fail a test, separated by commas",
        ),
        Setting(
            name="strict",
            parse=switch,
            flag=True,
            default_text="off",
            help="fail on every verdict but unchanged and improved, and without a baseline",
        ),
        Setting(
            name="ceilings",
            parse=choice("cached", "measure", "off"),
            metavar="cached|measure|off",
            default_text="cached",
            help="this machine's ceilings, for benchmarks that state bytes_moved or flops: measured once and kept in "
            "the user's cache folder (cached), measured anew (measure), or not wanted (off)",
        ),
        Setting(
            name="sort",
            parse=choice(*SORTS),
            metavar="|".join(SORTS),
            default_text="order",
            help="the order of the table's rows",
        ),
        Setting(
            name="group_by",
            parse=choice(*GROUPINGS),
            metavar="|".join(GROUPINGS),
            default_text="none",
            help="what the table's rows are grouped by",
        ),
        Setting(
            name="columns",
            parse=words(*COLUMNS),
            metavar="COLUMNS",
            default_text="name,mean,error,ratio,verdict,share",
            help="the table's columns, separated by commas",
        ),
    )
}
