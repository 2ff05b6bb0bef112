"""Does --gpuperf-against find what a commit made slower, and nothing else?

    python benchmarks/against_revision.py [--runs 8] [--only unchanged] [--out benchmarks/results/against_revision.json]

Makes a repository of the example kernels and the GeLU perf tests, and runs three comparisons with its previous commit:

- slower: on a GPU the commit gives the Triton kernel 5 % more elements inside the same call; on a CPU, whose timings
  are coarser, it has torch's GeLU done twice. Just that benchmark must fail.
- unchanged: the commit changes a comment. Nothing may fail.
- hidden: the slower commit again, with the kernels installed, so that both sides would run the same copy.
  This must be refused, by the name of a module.

Says what each of them is at, with the seconds since its start, and writes the record after each. Exits with 1 where one
does not end as it should, with 3 where it is ended early: what was seen of the comparison under way is told, too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from early_end import UNDECIDED, EndedEarly
from records import machine, write_record
from suite_runs import pytest_arguments
from watched import Finished, run_watched

REPOSITORY = Path(__file__).resolve().parents[1]
TESTS = "perf/test_gelu.py"
# What the `pytest` script does: it leaves the working directory off the import path, unlike `python -m pytest`.
AS_SCRIPT = ["-c", "import sys; sys.path.pop(0); import pytest; sys.exit(pytest.main())"]
SLOWER_ON_GPU = (TESTS, '"GPUPERF_EXAMPLE_EXTRA_WORK", "0"', '"GPUPERF_EXAMPLE_EXTRA_WORK", "0.05"')
SLOWER_ON_CPU = (
    "example_kernels/gelu/__init__.py",
    "    return torch.nn.functional.gelu(x, approximate=approximate)",
    "    torch.nn.functional.gelu(x, approximate=approximate)\n"
    "    return torch.nn.functional.gelu(x, approximate=approximate)",
)
COMPARISONS = ("slower", "hidden", "unchanged")
PHASE = re.compile(
    r"(collected \d+ items?.*|\S+\.py \S+|gpuperf: .*( fresh process(es)?|: [01]/\d+|, done)|=+ .* in [\d.]+s.*)$"
)
"""What tells how far pytest is: what it collected, its own tests, each fresh process's first one, the end."""
SEEN_CHARACTERS = 5000
REFUSED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one comparison ended."""

    what: str
    exit_code: int
    verdicts: dict[str, str]
    ratios: dict[str, float]
    seconds: float
    as_it_should: bool
    said: str = ""
    """For a refusal, its reason."""
    phases: list[str]


@dataclass(slots=True)
class Watch:
    """What was seen of one comparison while it ran."""

    what: str
    phases: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    _last: str = ""

    def saw(self, seconds: float, line: str) -> None:
        """Keep a line; print it where it tells of a phase."""
        if line == self._last:
            return
        self._last = line
        self.lines.append(line)
        if PHASE.match(line):
            phase = line.strip("= ")
            self.phases.append(f"{seconds:.1f} s: {phase}")
            print(f"  {self.what}, {self.phases[-1]}", flush=True)


class Repository:
    """The kernels and their perf tests under version control."""

    def __init__(self, path: Path) -> None:
        self.path = path
        ignored = shutil.ignore_patterns("__pycache__", "test_*.py")
        shutil.copytree(REPOSITORY / "example_kernels", path / "example_kernels", ignore=ignored)
        (path / "perf").mkdir()
        shutil.copy(REPOSITORY / "example_kernels" / "gelu" / "test_perf_gelu.py", path / TESTS)
        (path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
        (path / ".gitignore").write_text("__pycache__/\n.gpuperf/\n")
        self._git("init", "--quiet")
        self.commit()

    def change(self, name: str, old: str, new: str) -> None:
        """Replace text in one of the files, and commit."""
        file = self.path / name
        text = file.read_text()
        if old not in text:
            raise SystemExit(f"{name} has no {old!r} to change")
        file.write_text(text.replace(old, new))
        self.commit()

    def commit(self) -> None:
        """Commit everything."""
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message=change")

    def worktrees(self) -> int:
        """How many trees git knows of."""
        return len(self._git("worktree", "list").splitlines())

    def _git(self, *arguments: str) -> str:
        who = {f"GIT_{role}_{what}": "benchmarks" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env={**os.environ, **who}, capture_output=True, text=True, check=True
        )
        return done.stdout


def compare(repository: Repository, watch: Watch, head: Sequence[str], options: Sequence[str], **env: str) -> Ended:
    """Compare the working tree with the previous commit."""
    what, results = watch.what, repository.path.parent / f"{watch.what}.json"
    command = [sys.executable, *head, *pytest_arguments(), TESTS, "--gpuperf-against=HEAD~1", *options]
    begun = time.perf_counter()
    # Threads of a CPU that wait for each other would measure the machine's other load.
    environment = {"OMP_NUM_THREADS": "1", **os.environ, **env}
    done = run_watched([*command, f"--gpuperf-json={results}"], repository.path, environment, watch.saw)
    outcomes = json.loads(results.read_bytes())["outcomes"] if results.exists() else []
    names = {outcome["benchmark"]["node_id"].rpartition("::")[2]: outcome["decision"] for outcome in outcomes}
    verdicts = {name: decision["verdict"] for name, decision in names.items()}
    ended = Ended(
        what=what,
        exit_code=done.returncode,
        verdicts=verdicts,
        ratios={name: round(d["ratio"], 4) for name, d in names.items() if "ratio" in d},
        seconds=round(time.perf_counter() - begun, 1),
        as_it_should=_as_it_should(what, done, verdicts) and repository.worktrees() == 1,
        said=done.stderr.strip() if what == "hidden" else "",
        phases=watch.phases,
    )
    print(told(ended), flush=True)
    if not ended.as_it_should:
        print(done.stdout[-SEEN_CHARACTERS:], done.stderr[-SEEN_CHARACTERS:], flush=True)
    return ended


def _as_it_should(what: str, done: Finished, verdicts: dict[str, str]) -> bool:
    if what == "hidden":
        return done.returncode == REFUSED and "example_kernels" in done.stderr
    regressed = [name for name, verdict in verdicts.items() if verdict == "regressed"]
    if what == "unchanged":
        return done.returncode == 0 and len(verdicts) > 1 and not regressed
    slowed = ("triton", "torch")
    return done.returncode == 1 and len(regressed) == 1 and any(name in regressed[0] for name in slowed)


def told(ended: Ended) -> str:
    """Say in a line or two how a comparison ended."""
    mark = "as it should" if ended.as_it_should else "NOT AS IT SHOULD"
    shown = ", ".join(f"{name} {verdict} x {ended.ratios.get(name, 1)}" for name, verdict in ended.verdicts.items())
    return f"{ended.what}: exit {ended.exit_code}, {shown or ended.said}, {ended.seconds:.0f} s: {mark}"


class Comparisons:
    """Runs comparisons one after another; writes the record after each."""

    def __init__(self, about: dict[str, str], options: Sequence[str], out: Path | None) -> None:
        self._about = about
        self._options = options
        self._out = out
        self._under_way: Watch | None = None
        self.ended: list[Ended] = []

    def all_of(self, chosen: Sequence[str], folder: Path) -> None:
        """Make the repository, run the chosen comparisons."""
        (folder / "repository").mkdir()
        repository = Repository(folder / "repository")
        repository.change(*(SLOWER_ON_GPU if "gpu" in self._about else SLOWER_ON_CPU))
        if "slower" in chosen:
            self._run(repository, "slower", ["-m", "pytest"])
        if "hidden" in chosen:
            shutil.copytree(repository.path / "example_kernels", folder / "installed" / "example_kernels")
            path = os.pathsep.join([str(folder / "installed"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
            self._run(repository, "hidden", AS_SCRIPT, PYTHONPATH=path)
        if "unchanged" in chosen:
            repository.change("pytest.ini", "[pytest]\n", "[pytest]\n# Nothing else is set.\n")
            self._run(repository, "unchanged", ["-m", "pytest"])

    def _run(self, repository: Repository, what: str, head: Sequence[str], **env: str) -> None:
        print(f"{what}: begun", flush=True)
        self._under_way = Watch(what)
        self.ended.append(compare(repository, self._under_way, head, self._options, **env))
        self._under_way = None
        self.write()

    def write(self) -> None:
        """Write what there is."""
        record: dict[str, object] = {"machine": self._about, "comparisons": [asdict(ended) for ended in self.ended]}
        if self._under_way:
            record["ended_within"] = {"what": self._under_way.what, "phases": self._under_way.phases}
        write_record(record, self._out, indent=1)

    def seen(self) -> str:
        """Return how the comparisons ended, and the end of what the one under way has printed."""
        lines = [told(ended) for ended in self.ended]
        if self._under_way:
            lines += [f"{self._under_way.what}: ended within it; the end of its output:"]
            lines += ["\n".join(self._under_way.lines)[-SEEN_CHARACTERS:]]
        return "\n".join(lines)


def main() -> int:
    """Run the three comparisons, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8, help="runs of each side, at least 7 to fail (default: 8)")
    parser.add_argument("--max-time", default="0.2", help="of one benchmark in one run, in seconds (default: 0.2)")
    parser.add_argument("-k", help="which perf tests (default: bfloat16 on a GPU, all on a CPU; nothing compiled)")
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, default=COMPARISONS, help="which comparisons")
    parser.add_argument("--out", type=Path, help="where to write the record as JSON")
    arguments = parser.parse_args()
    about = machine()
    print(about, flush=True)
    chosen = arguments.k or ("bfloat16 and (torch or triton or unfused)" if "gpu" in about else "torch or unfused")
    options = [f"--gpuperf-runs={arguments.runs}", f"--gpuperf-max-time={arguments.max_time}", "-k", chosen]
    comparisons = Comparisons(about, options, arguments.out)
    with EndedEarly() as ended_early, tempfile.TemporaryDirectory() as name:
        comparisons.all_of(arguments.only, Path(name))
    if ended_early:
        comparisons.write()
        print(comparisons.seen())
        return UNDECIDED
    return 0 if all(ended.as_it_should for ended in comparisons.ended) else 1


if __name__ == "__main__":
    sys.exit(main())
