"""Scripts under benchmarks/ that a time limit ends: what they had measured is in the file and on the screen."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
UNDECIDED = 3
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{BENCHMARKS.parent}{os.pathsep}{BENCHMARKS}", "OMP_NUM_THREADS": "1"}
SMALL_SUITE = ["--subjects=add_4k", "--everything=add_4k,matmul_1k", "--max-time=0.01"]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )


def ended_at(line: str, script: str, *options: object) -> tuple[int, str]:
    """Send SIGTERM, twice as `timeout` does, once the script prints such a line; return exit code and output."""
    command = [sys.executable, str(BENCHMARKS / script), *map(str, options)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        seen = []
        for one in process.stdout:
            seen.append(one)
            if re.search(line, one):
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGTERM)
                break
        rest = process.communicate()[0]
    return process.returncode, "".join(seen) + rest


ENDING = """
import os, signal
from early_end import EndedEarly
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin with it ignored
with EndedEarly() as ended:
    pass
print(bool(ended), signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
with EndedEarly() as ended:
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(bool(ended), flush=True)
with EndedEarly() as ended:
    os.kill(os.getpid(), signal.{sent})
    print("not reached")
os.kill(os.getpid(), signal.SIGTERM) if ended and {again} else None
print(bool(ended))
with EndedEarly():
    raise ValueError("passes through")
"""


@pytest.mark.parametrize(("sent", "again"), [("SIGTERM", True), ("SIGINT", False)])
def test_a_block_is_left_by_a_signal_and_by_nothing_else(sent: str, again: bool) -> None:
    done = run("-c", ENDING.format(sent=sent, again=again))
    told = [line for line in done.stdout.splitlines() if line]
    assert told == ["False True", str(-signal.SIGTERM), "False", "ended early; what there is:", "True"]
    assert done.stderr.endswith("ValueError: passes through\n")


def test_rounds_of_conditions_are_kept_and_added_to(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "record.json"
    code, output = ended_at(
        r"^round 1 of",
        "exchangeability.py",
        *SMALL_SUITE,
        "--conditions",
        "suite",
        "alone",
        "--runs=900",
        f"--out={out}",
    )
    assert code == UNDECIDED, output
    assert "ended early; what there is:" in output
    record = json.loads(out.read_text())
    rounds = len(record["round_dates"])
    assert rounds > 0
    assert {len(runs) for by_name in record["runs"].values() for runs in by_name.values()} == {rounds}
    again = run(BENCHMARKS / "exchangeability.py", f"--add-to={out}", "--runs=1")
    assert f"rounds: {rounds + 1}; compared with: suite" in again.stdout, again.stdout + again.stderr
    added = json.loads(out.read_text())
    assert len(added["runs"]["alone"]["add_4k"]) == rounds + 1
    assert added["runs"]["suite"]["matmul_1k"][:rounds] == record["runs"]["suite"]["matmul_1k"]
    refused = run(BENCHMARKS / "exchangeability.py", f"--add-to={out}", "--conditions", "own", "alone")
    assert refused.returncode == 1
    assert "cannot be continued: conditions ['suite', 'alone'] there" in refused.stderr
    assert json.loads(out.read_text()) == added


def test_a_comparison_of_revisions_says_how_far_it_came(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "record.json"
    code, output = ended_at(
        r"run 1: 1/", "against_revision.py", "--only", "unchanged", "--runs=7", "--max-time=0.05", f"--out={out}"
    )
    assert code == UNDECIDED, output
    assert re.search(r"unchanged, [\d.]+ s: collected \d+ items", output)
    assert "unchanged: ended within it; the end of its output:" in output
    record = json.loads(out.read_text())
    assert record["comparisons"] == []
    assert record["ended_within"]["what"] == "unchanged"
    assert "run 1: 1/" in record["ended_within"]["phases"][-1]


@pytest.mark.slow
def test_a_comparison_of_revisions_is_recorded_with_its_phases(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "record.json"
    done = run(BENCHMARKS / "against_revision.py", "--only", "hidden", "--runs=2", "--max-time=0.05", f"--out={out}")
    assert done.returncode == 0, done.stdout + done.stderr
    [hidden] = json.loads(out.read_text())["comparisons"]
    assert hidden["as_it_should"]
    assert "did not run its own code" in hidden["said"]
    assert [phase for phase in hidden["phases"] if "run 2: 1/" in phase]


def test_a_time_budget_is_of_the_tests_there_were(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "record.json"
    code, output = ended_at(r"turn 1:", "time_budget.py", "--repeats=9", f"--out={out}")
    assert code == UNDECIDED, output
    record = json.loads(out.read_text())
    first = record["seconds"]["add of 4k"][0]
    assert first["test"] > first["prepare"] + first["warm-up"] + first["trials"] > 0
    assert first["timed"] > 0
    assert "timed/trials" in output


GALLERY = """
import os, pytest, signal

def test_trick_is_caught():
    pass

def test_trick_gets_away():
    assert 1 == 2, "the first line\\nand more"

@pytest.fixture
def broken():
    raise ValueError("no such thing")

def test_honest_one(broken):
    pass

def test_of_a_limit():
    if "ENDED" in os.environ:
        os.kill(os.getpid(), signal.SIGTERM)

def test_that_comes_after():
    pass
"""
CHECKS = "import sys, checks; checks.GALLERY = [sys.argv[1]]; sys.exit(checks.main(sys.argv[2:]))"
AT_ONCE = (
    "FAILED test_gallery.py::test_trick_gets_away: AssertionError: the first line | and more | assert 1 == 2",
    "FAILED test_gallery.py::test_honest_one (setup): ValueError: no such thing",
)


@pytest.mark.parametrize("options", [[], ["-n1"]])
def test_each_failed_case_is_named_before_the_summary(tmp_path: Path, options: list[str]) -> None:
    pytest.importorskip("torch")
    gallery = tmp_path / "test_gallery.py"
    gallery.write_text(GALLERY)
    done = run("-c", CHECKS, gallery, "-p", "no:cacheprovider", f"--rootdir={tmp_path}", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    summary = next(number for number, line in enumerate(lines) if "short test summary" in line)
    assert all(lines.index(line) < summary for line in AT_ONCE)
    assert lines[-2:] == ["CPU: honest callables left alone: 0 of 1", "CPU: tricks caught: 3 of 4"]


def test_the_counts_so_far_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    gallery = tmp_path / "test_gallery.py"
    gallery.write_text(GALLERY)
    monkeypatch.setitem(ENVIRONMENT, "ENDED", "1")
    done = run("-c", CHECKS, gallery, "-p", "no:cacheprovider", f"--rootdir={tmp_path}")
    assert done.returncode == UNDECIDED, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert set(AT_ONCE) <= set(lines)
    assert lines[-2:] == ["CPU: honest callables left alone: 0 of 1", "CPU: tricks caught: 1 of 2"]


# In place of what measures: it measures so much and then is ended.
KERNELS = """
import os, signal, sys, kernels
kernels.environment = lambda: {{"date": "today", "device": "a card", "torch": "2"}}
def rows(names):
    for name in names[:2]:
        yield {{"length": int(name), "triton MiB": 1.5}}
    os.kill(os.getpid(), signal.SIGTERM)
kernels.TABLES["memory"] = rows
sys.argv = ["kernels.py", "--only", "memory", "--output", {out!r}, *{options!r}]
sys.exit(kernels.main())
"""


def test_rows_of_kernels_are_written_as_they_come_and_added_to(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    out = str(tmp_path / "kernels")
    done = run("-c", KERNELS.format(out=out, options=[]))
    assert done.returncode == UNDECIDED, done.stdout + done.stderr
    assert "not measured: memory: 4096; memory: 8192; memory: 16384" in done.stderr
    rows = json.loads(Path(f"{out}.json").read_text())["results"]["memory"]
    assert rows == [{"length": 1024, "triton MiB": 1.5}, {"length": 2048, "triton MiB": 1.5}]
    assert done.stdout.endswith(Path(f"{out}.md").read_text() + "\n")
    run("-c", KERNELS.format(out=out, options=["--add-to", f"{out}.json", "--rows", "8192"]))
    assert [row["length"] for row in json.loads(Path(f"{out}.json").read_text())["results"]["memory"]] == [
        1024,
        2048,
        8192,
    ]


def test_some_rows_of_kernels_do_not_replace_the_stored_results() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    stored = (BENCHMARKS / "results" / "kernels.json").read_bytes()
    done = run(BENCHMARKS / "kernels.py", "--rows", "x200")
    assert done.returncode == 2
    assert "name --output, or --add-to" in done.stderr
    assert (BENCHMARKS / "results" / "kernels.json").read_bytes() == stored


TUNING = """
import os, signal, sys, tune_kernels
def tables():
    yield tune_kernels.table("softmax 1x2", {{"slow": 2.0, "fast": 1.0}})
    os.kill(os.getpid(), signal.SIGTERM)
tune_kernels.TABLES["softmax"] = tables
sys.argv = ["tune_kernels.py", "softmax", "--out", {out!r}]
sys.exit(tune_kernels.main())
"""


def test_tables_of_tuning_are_written_as_they_come(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    out = tmp_path / "tuning.txt"
    done = run("-c", TUNING.format(out=str(out)))
    assert done.returncode == UNDECIDED, done.stderr
    assert out.read_text().splitlines() == ["softmax 1x2", "        1.0 us  fast", "        2.0 us  slow"]
    assert done.stdout.startswith(out.read_text())


POOLS = """
import os, signal, sys, aa_sessions
from pytest_gpuperf.measure.samples import RunRecord
run = RunRecord(trials=2, log_median=0.0, mean_us=1.0, sd_us=0.1, min_us=1.0, p5_us=1.0, p95_us=1.0, half_width_us=0.1)
def pool(self, name, runs, *, slower=False):
    if name == "again":
        os.kill(os.getpid(), signal.SIGTERM)
    return {{"gelu_64m": [run] * runs}}
aa_sessions.Recording.pool = pool
sys.argv = ["aa_sessions.py", "--out", {out!r}]
sys.exit(aa_sessions.main())
"""


def test_a_pool_of_runs_outlives_the_next(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "record.json"
    done = run("-c", POOLS.format(out=str(out)))
    assert done.returncode == UNDECIDED, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "nothing to replay: there are no unchanged_runs, slower_runs"
    record = json.loads(out.read_text())
    assert len(record["baseline_runs"]["gelu_64m"]) == 10
    assert "unchanged_runs" not in record


GATE = """
import os, signal, subprocess, sys, gate_sessions
begun = []
def session(command, **options):
    begun.append(command)
    if len(begun) == 3:
        os.kill(os.getpid(), signal.SIGTERM)
    return subprocess.CompletedProcess(command, 0, "said", "")
gate_sessions.machine = lambda: {{}}
gate_sessions.subprocess.run = session
sys.argv = ["gate_sessions.py", "cpu", "--out", {out!r}]
sys.exit(gate_sessions.main())
"""


def test_sessions_of_the_gate_are_recorded_one_by_one(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "record.json"
    done = run("-c", GATE.format(out=str(out)))
    assert done.returncode == UNDECIDED, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "2 of 2 sessions ended as expected"
    assert [session["what"] for session in json.loads(out.read_text())["sessions"]] == [
        "save a baseline",
        "unchanged 1",
    ]


WATCHED = """
import os, pty, sys
from pathlib import Path
from watched import run_watched
def no_terminal():
    raise OSError("out of pty devices")
if not {terminal}:
    pty.openpty = no_terminal
program = '''
import signal, sys
signal.signal(signal.SIGINT, lambda *_: (open({cleaned!r}, "w").write("cleaned"), sys.exit(5)))
print("first", flush=True)
sys.stdout.write("\\\\rsecond 1/2   "); sys.stdout.flush()
if {ends}:
    sys.stderr.write("why")
    print("\\\\rsecond 2/2   ")
    sys.exit(4)
signal.pause()
'''
seen = []
def saw(seconds, line):
    seen.append(line)
    if not {ends} and line.startswith("second"):
        raise KeyboardInterrupt
try:
    done = run_watched([sys.executable, "-c", program], Path.cwd(), os.environ, saw)
    print(done.returncode, done.stderr, done.stdout.splitlines())
except KeyboardInterrupt:
    pass
print(list(dict.fromkeys(seen)))
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_a_watched_command_is_seen_to_the_end(tmp_path: Path, terminal: bool) -> None:
    done = run("-c", WATCHED.format(cleaned=str(tmp_path / "cleaned"), ends=True, terminal=terminal))
    assert done.stdout.splitlines() == [
        "4 why ['first', 'second 1/2', 'second 2/2']",
        "['first', 'second 1/2', 'second 2/2']",
    ], done.stderr


@pytest.mark.parametrize("terminal", [True, False])
def test_a_watched_command_is_seen_while_it_runs_and_may_clean_up(tmp_path: Path, terminal: bool) -> None:
    done = run("-c", WATCHED.format(cleaned=str(tmp_path / "cleaned"), ends=False, terminal=terminal))
    assert done.stdout.splitlines() == ["['first', 'second 1/2']"], done.stderr
    assert (tmp_path / "cleaned").read_text() == "cleaned"
