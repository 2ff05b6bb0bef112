"""Does the gate hold? Whole sessions of `pytest --gpuperf`, each checked for its exit code, verdicts and JUnit file.

    python benchmarks/gate_sessions.py gpu [-k EXPRESSION] [--out FILE]
        On a GPU, with the GeLU perf tests of example_kernels: save a baseline, five sessions of unchanged code, then
        the Triton kernel with 3 % more work (twice), the gate that also stores, the explicit accept, a last session.
    python benchmarks/gate_sessions.py cpu [--sessions N] [--out FILE]
        On a CPU, with real functions: N sessions of unchanged code and N with one function doing twice the work.

Exits with 1 where a session did not end as it should, with 3 where it was ended early; FILE is written after each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from early_end import UNDECIDED, EndedEarly
from records import machine, write_record
from suite_runs import pytest_arguments

REPOSITORY = Path(__file__).resolve().parents[1]
SLOWED = "triton"
EXTRA_WORK = "GPUPERF_EXAMPLE_EXTRA_WORK"
CPU_SUITE = """
import os
import pytest

TWICE = os.environ.get("GATE_SESSIONS_TWICE") == "1"

def summed(n):
    total = 0
    for i in range(n):
        total += i * i
    return total

def sorted_words(n):
    return sorted(str(i * 7919 % n) for i in range(n))

def joined(n):
    return ",".join(map(str, range(n)))

def counted(n):
    seen = {}
    for i in range(n):
        seen[i % 97] = seen.get(i % 97, 0) + 1
    return seen

def with_twice_the_work(n):
    total = summed(n)
    return summed(n) if TWICE else total

FUNCTIONS = [summed, sorted_words, joined, counted, with_twice_the_work]

@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function(gpubench, function):
    gpubench(function, 3000)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How a session has to end."""

    exit_code: int
    failures: tuple[str, ...] = ()
    """For each failure in the JUnit file, a part of its test's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """How a session ended."""

    what: str
    seconds: float
    exit_code: int
    failures: list[str]
    messages: list[str]
    verdicts: dict[str, int]
    clocks_ghz: list[float] = field(default_factory=list)
    as_expected: bool = False
    tail: str = ""


class Suite:
    """Runs sessions on one suite and storage, and remembers how they ended."""

    def __init__(
        self, cwd: Path, arguments: list[str], storage: Path, keep: Callable[[Sequence[Session]], None]
    ) -> None:
        """`keep` is called with all sessions after each."""
        self._keep = keep
        self._cwd = cwd
        self._arguments = arguments
        self._storage = storage
        self.sessions: list[Session] = []

    def run(self, what: str, options: list[str], expected: Expected, **environment: str) -> Session:
        """Run one session and print how it ended."""
        with tempfile.TemporaryDirectory() as folder:
            junit, results = Path(folder, "junit.xml"), Path(folder, "results.json")
            command = [sys.executable, "-m", "pytest", "-q", *pytest_arguments(), *self._arguments, *options]
            command += [f"--junitxml={junit}", f"--gpuperf-json={results}", f"--gpuperf-storage={self._storage}"]
            begun = time.perf_counter()
            done = subprocess.run(
                command, cwd=self._cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
            )
            session = read_session(what, time.perf_counter() - begun, done, junit, results, expected)
        self.sessions.append(session)
        self._keep(self.sessions)
        print(row(session), flush=True)
        if not session.as_expected:
            print(session.tail, flush=True)
        return session

    def stored_entry(self, part: str) -> str:
        """Return the stored baseline's entry whose key has `part` in it, as text."""
        [path] = self._storage.glob("baselines/*/main.json")
        entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
        return json.dumps([entry for key, entry in entries.items() if part in key], sort_keys=True)


def read_session(
    what: str, seconds: float, done: subprocess.CompletedProcess[str], junit: Path, results: Path, expected: Expected
) -> Session:
    """Read a session's files."""
    cases = ElementTree.parse(junit).iter("testcase") if junit.exists() else []
    failed = {case.get("name", ""): case.find("failure") for case in cases if case.find("failure") is not None}
    outcomes = json.loads(results.read_text(encoding="utf-8"))["outcomes"] if results.exists() else []
    clocks = [run["clock_ghz"] for outcome in outcomes for run in outcome["runs"] if run.get("clock_ghz")]
    same = len(failed) == len(expected.failures) and all(
        any(part in name for name in failed) for part in expected.failures
    )
    return Session(
        what=what,
        seconds=round(seconds, 1),
        exit_code=done.returncode,
        failures=list(failed),
        messages=[element.text or "" for element in failed.values() if element is not None],
        verdicts=dict(Counter(outcome["decision"]["verdict"] for outcome in outcomes)),
        clocks_ghz=[round(min(clocks), 3), round(max(clocks), 3)] if clocks else [],
        as_expected=done.returncode == expected.exit_code and same,
        tail=done.stdout[-6000:] + done.stderr[-2000:],
    )


def row(session: Session) -> str:
    """Say in one line how a session ended."""
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(session.verdicts.items()))
    mark = "as expected" if session.as_expected else "NOT AS EXPECTED"
    clocks = f", clock {session.clocks_ghz[0]}-{session.clocks_ghz[1]} GHz" if session.clocks_ghz else ""
    return f"{session.what}: exit {session.exit_code}, {verdicts}{clocks}, {session.seconds:.0f} s: {mark}"


def gpu_story(suite: Suite) -> bool:
    """Run the story of one slowdown on a GPU; return whether the baseline was left alone and then replaced."""
    passes, fails = Expected(exit_code=0), Expected(exit_code=1, failures=(SLOWED,))
    slower = {EXTRA_WORK: "0.03"}
    suite.run("save a baseline", ["--gpuperf-save-baseline"], passes)
    for number in range(1, 6):
        suite.run(f"unchanged {number}", ["--gpuperf"], passes)
    stored = suite.stored_entry(SLOWED)
    suite.run("3 % more work", ["--gpuperf"], fails, **slower)
    suite.run("3 % more work, again", ["--gpuperf"], fails, **slower)
    suite.run("3 % more work, gate that stores", ["--gpuperf", "--gpuperf-save-baseline"], fails, **slower)
    left_alone = suite.stored_entry(SLOWED) == stored
    suite.run("accept the slowdown", ["--gpuperf-save-baseline"], passes, **slower)
    replaced = suite.stored_entry(SLOWED) != stored
    suite.run("3 % more work, accepted", ["--gpuperf"], passes, **slower)
    print(f"baseline entry left alone by the gate: {left_alone}; replaced by the accept: {replaced}")
    return left_alone and replaced


def cpu_story(suite: Suite, sessions: int) -> bool:
    """Run unchanged and doubled sessions in turn."""
    suite.run("save a baseline", ["--gpuperf-save-baseline"], Expected(exit_code=0))
    for number in range(1, sessions + 1):
        suite.run(f"unchanged {number}", ["--gpuperf"], Expected(exit_code=0))
        doubled = Expected(exit_code=1, failures=("with_twice_the_work",))
        suite.run(f"doubled {number}", ["--gpuperf"], doubled, GATE_SESSIONS_TWICE="1")
    return True


def main() -> int:
    """Run the chosen story."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=["gpu", "cpu"])
    parser.add_argument("-k", default="bfloat16 and not compiled", help="which GeLU perf tests")
    parser.add_argument("--sessions", type=int, default=20, help="sessions of each kind on the CPU")
    parser.add_argument("--out", type=Path, help="where to write the sessions as JSON")
    parser.add_argument("--pytest", default="", help="more arguments for pytest, separated by blanks")
    arguments = parser.parse_args()
    about = machine()
    print(about, flush=True)

    def keep(sessions: Sequence[Session]) -> None:
        plain = [asdict(session) | {"tail": ""} for session in sessions]
        write_record({"machine": about, "sessions": plain}, arguments.out, indent=1)

    sessions, ended_well = [], False
    with EndedEarly() as ended_early, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        extra, storage = arguments.pytest.split(), folder / "storage"
        if arguments.device == "gpu":
            suite = Suite(REPOSITORY, ["example_kernels/gelu", "-k", arguments.k, *extra], storage, keep)
            sessions = suite.sessions
            ended_well = gpu_story(suite)
        else:
            (folder / "test_functions.py").write_text(CPU_SUITE)
            suite = Suite(folder, ["test_functions.py", *extra], storage, keep)
            sessions = suite.sessions
            ended_well = cpu_story(suite, arguments.sessions)
    as_expected = sum(session.as_expected for session in sessions)
    print(f"{as_expected} of {len(sessions)} sessions ended as expected")
    for message in {session.what: session.messages for session in sessions if session.messages}.items():
        print(*message, sep="\n")
        break
    if ended_early:
        return UNDECIDED
    return 0 if ended_well and as_expected == len(sessions) else 1


if __name__ == "__main__":
    sys.exit(main())
