"""Does the gate cry wolf, and does it see 3 %? Sessions of unchanged code, and of two kernels made slower.

    python benchmarks/aa_sessions.py [--minutes 8] [--slower 0.03] [--out benchmarks/results/aa_sessions.json]

Everything is measured by `pytest --gpuperf` on suites/test_kernels.py:

1. a baseline of 10 runs is saved; so are 8 further runs of unchanged code, and 8 of the code whose `gelu_64m` (bound by
   memory) and `matmul_4k` (by arithmetic) do 3 % more work; every run is a fresh process through the whole suite;
2. REAL sessions: as many complete sessions against that baseline as the minutes allow, two of unchanged code for each
   slower one (`--real` caps them);
3. REPLAYED sessions: the recorded whole-suite runs of unchanged code are dealt at random, again and again, into a
   baseline of 10 and a session of 8; for slower sessions the session's 8 are the slower code's. Each goes through the
   plugin's own screen and decision. Replays show what chance does to the gate; they hold no more runs than were taken.

A session of unchanged code must fail nothing; a slower one must fail those two and nothing else. Exits with 1 where
more than 1 % of the unchanged sessions fail, or fewer than 95 % of the slower ones end as they should, with 3 where it
was ended early. The record is written after each pool of runs and each session; `--from` makes the tables of it.
`--from FILE.json` replays a record anew; `--from FILE.npz` replays recorded processes (the format of
`gpuperf calibrate --from`), whose slower kernels are `gelu_64m_p2` and `matmul_4k_p2`: about 2 %.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
from early_end import UNDECIDED, EndedEarly
from records import machine, write_record
from suite_runs import Runs, Session, plain, session, stored_runs
from tabulate import tabulate

from pytest_gpuperf.compare.audit import Case
from pytest_gpuperf.compare.moderation import suite_prior
from pytest_gpuperf.compare.recordings import base_of, load_recording
from pytest_gpuperf.compare.verdict import Policy
from pytest_gpuperf.measure.samples import RunRecord

SLOWED = ("gelu_64m", "matmul_4k")
BASELINE_RUNS = 10
SESSION_RUNS = 8
POOLS = {
    "baseline_runs": ("main", BASELINE_RUNS),
    "unchanged_runs": ("again", SESSION_RUNS),
    "slower_runs": ("slower", SESSION_RUNS),
}
"""What each pool of whole-suite runs is stored as, and of how many runs."""
SLOWER = "GPUPERF_SUITE_SLOWER"
LEAST_DETECTED = 0.95
LEAST_QUIET = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one session ended."""

    slower: bool
    regressed: list[str]
    inconclusive: list[str]
    seconds: float = 0.0
    exit_code: int | None = None
    """None for a replay."""
    ratios: dict[str, float] = field(default_factory=dict)
    """Of the benchmarks made slower."""

    @property
    def as_it_should(self) -> bool:
        """Whether just what was made slower failed."""
        wanted = sorted(SLOWED) if self.slower else []
        return sorted(self.regressed) == wanted and self.exit_code in (None, int(self.slower))


class Recording:
    """Measures the pools of whole-suite runs and the real sessions, within a number of minutes."""

    def __init__(self, folder: Path, minutes: float, slower: float, options: Sequence[str]) -> None:
        self._until = time.monotonic() + 60 * minutes
        self._slower = {SLOWER: ",".join(f"{name}={slower}" for name in SLOWED)}
        self._storage = folder / "storage"
        self._options = [f"--gpuperf-storage={self._storage}", *options]
        self.sessions: list[Ended] = []
        self.own: Runs = {}
        """What the processes of the real sessions of unchanged code measured themselves: whole-suite runs too."""

    def pool(self, name: str, runs: int, *, slower: bool = False) -> Runs:
        """Save a baseline of so many runs; return them."""
        done = self._session([f"--gpuperf-save-baseline={name}", f"--gpuperf-runs={runs}"], slower=slower)
        if done.exit_code:
            raise SystemExit(done.output)
        print(f"{runs} {'slower' if slower else 'unchanged'} whole-suite runs in {done.seconds:.0f} s", flush=True)
        found = stored_runs(self._storage, name)
        for label, records in found.items():
            if len(records) < runs:
                print(f"  {label}: {len(records)} of them; {'; '.join(records[0].notes)}", flush=True)
        return found

    def real_sessions(self, most: int) -> Iterator[None]:
        """Run sessions, slower, unchanged, unchanged, and so on, until the time or `most` of them are through.

        Yields before the first and after each.
        """
        longest = 0.0
        yield
        while len(self.sessions) < most and time.monotonic() + longest < self._until:
            slower = len(self.sessions) % 3 == 0
            done = self._session(["--gpuperf"], slower=slower)
            longest = max(longest, done.seconds)
            self.sessions.append(_ended(done, slower=slower))
            print(told(self.sessions[-1]), flush=True)
            if not self.sessions[-1].as_it_should:
                print(done.output[-4000:], flush=True)
            if not slower:
                for label, run in done.own_runs().items():
                    self.own.setdefault(label, []).append(run)
            yield

    def _session(self, options: Sequence[str], *, slower: bool) -> Session:
        return session([*options, *self._options], **(self._slower if slower else {}))


def _ended(done: Session, *, slower: bool) -> Ended:
    by_name = {o.benchmark.label.rpartition("[")[2].rstrip("]"): o.decision.ratio for o in done.outcomes}
    return Ended(
        slower=slower,
        regressed=done.labels("regressed"),
        inconclusive=done.labels("inconclusive"),
        seconds=round(done.seconds, 1),
        exit_code=done.exit_code,
        ratios={name: ratio for name in SLOWED if (ratio := by_name.get(name)) is not None},
    )


def replayed(unchanged: Runs, slower: Runs, deals: int, *, paired: bool = False) -> Iterator[Ended]:
    """Deal the recorded runs into sessions of unchanged code and of slower code, in turn.

    `paired`: the slower runs were taken in the very processes of the unchanged ones, and are dealt with them.
    """
    generator = random.Random(0)
    available = _fewest(unchanged)
    for _ in range(deals):
        drawn = generator.sample(range(available), min(available, BASELINE_RUNS + SESSION_RUNS))
        baseline = _dealt(unchanged, drawn[:BASELINE_RUNS], "baseline")
        yield _replay(baseline, _dealt(unchanged, drawn[BASELINE_RUNS:], "session"), slower=False)
        few = (
            drawn[BASELINE_RUNS:]
            if paired
            else generator.sample(range(_fewest(slower)), min(SESSION_RUNS, _fewest(slower)))
        )
        yield _replay(baseline, _dealt(slower, few, "session"), slower=True)


def _fewest(runs: Runs) -> int:
    return min(len(records) for records in runs.values())


def _dealt(runs: Runs, positions: Sequence[int], name: str) -> Runs:
    """Return these runs as if one session had made them."""
    return {
        label: [msgspec.structs.replace(records[i], session=name) for i in positions] for label, records in runs.items()
    }


def _replay(baseline: Runs, new: Runs, *, slower: bool) -> Ended:
    prior = suite_prior(baseline.values())
    policy = Policy(gated=len(baseline), confirm_runs=SESSION_RUNS - 1)
    verdicts = {label: Case(baseline[label], new[label], policy, prior).replay().verdict for label in new}
    return Ended(
        slower=slower,
        regressed=[label for label, verdict in verdicts.items() if verdict == "regressed"],
        inconclusive=[label for label, verdict in verdicts.items() if verdict == "inconclusive"],
    )


def told(ended: Ended) -> str:
    """Say in a line how a session ended."""
    kind = "slower" if ended.slower else "unchanged"
    ratios = "".join(f", {name} x {ratio:.4f}" for name, ratio in ended.ratios.items())
    mark = "as it should" if ended.as_it_should else "NOT AS IT SHOULD"
    named = ", ".join(ended.regressed) or "nothing"
    return f"real {kind} session: exit {ended.exit_code}, regressed: {named}{ratios}, {ended.seconds:.0f} s: {mark}"


def table(real: Sequence[Ended], replays: Sequence[Ended]) -> str:
    """Return how real and replayed sessions ended."""
    rows = []
    for how, sessions in (("real", real), ("replayed", replays)):
        for slower in (False, True):
            chosen = [ended for ended in sessions if ended.slower is slower]
            if not chosen:
                continue
            others = Counter(name for ended in chosen for name in ended.regressed if not slower or name not in SLOWED)
            found = [sum(name in ended.regressed for ended in chosen) for name in SLOWED] if slower else ["", ""]
            right = sum(ended.as_it_should for ended in chosen)
            rows.append([how, "slower" if slower else "unchanged", len(chosen), right, *found, _counted(others)])
    return tabulate(rows, ["sessions", "code", "number", "as they should", *SLOWED, "failed besides"])


def _counted(names: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in names.items()) or "nothing"


def hold(sessions: Sequence[Ended]) -> bool:
    """Return whether they end as they should: at least 99 % of the unchanged (so all of a few), 95 % of the slower."""
    unchanged = [ended.as_it_should for ended in sessions if not ended.slower]
    slower = [ended.as_it_should for ended in sessions if ended.slower]
    return sum(unchanged) >= LEAST_QUIET * len(unchanged) and sum(slower) >= LEAST_DETECTED * len(slower)


def record(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Measure pools and real sessions; yield what there is as plain values after each, and write it."""
    about = machine()
    print(about, flush=True)
    options = [f"--gpuperf-max-time={arguments.max_time}", "--gpuperf-fresh-start=fork", *arguments.pytest.split()]
    content: dict[str, object] = {"machine": about, "slower_share": arguments.slower}
    content |= {"real_sessions": [], "own_runs": {}}
    with tempfile.TemporaryDirectory() as name:
        recording = Recording(Path(name), arguments.minutes, arguments.slower, options)
        for key, (stored, runs) in POOLS.items():
            content[key] = plain(recording.pool(stored, runs, slower=key == "slower_runs"))
            write_record(content, arguments.out)
            yield content
        for _ in recording.real_sessions(arguments.real):
            content["real_sessions"] = [asdict(ended) for ended in recording.sessions]
            content["own_runs"] = plain(recording.own)
            write_record(content, arguments.out)
            yield content


def _recorded(path: Path, method: str) -> tuple[Runs, Runs]:
    """Return the runs of unchanged code in a recording, and the same with the two kernels' known slowdowns."""
    suite = load_recording(path, method=method)[method]
    unchanged = {op: runs for op, runs in suite.items() if base_of(op, suite) is None}
    return unchanged, {**unchanged, **{name: suite[f"{name}_p2"] for name in SLOWED}}


def _runs(content: object) -> Runs:
    return msgspec.convert(content, dict[str, list[RunRecord]])


def main() -> int:
    """Measure or load, replay, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8.0, help="no session begins that may end later (default: 8)")
    parser.add_argument("--real", type=int, default=60, help="most real sessions (default: 60)")
    parser.add_argument("--slower", type=float, default=0.03, help="share of extra work (default: 0.03)")
    parser.add_argument("--max-time", default="0.2", help="of one benchmark in one run, in seconds (default: 0.2)")
    parser.add_argument("--deals", type=int, default=200, help="replayed sessions of each kind (default: 200)")
    parser.add_argument("--pytest", default="", help="more arguments for pytest, separated by blanks")
    parser.add_argument("--from", dest="recorded", type=Path, help="replay this record or recording, measure nothing")
    parser.add_argument("--method", default="clocked", help="of a recording (default: clocked)")
    parser.add_argument("--out", type=Path, help="where to write the record as JSON")
    arguments = parser.parse_args()
    ended_early = EndedEarly()
    if arguments.recorded and arguments.recorded.suffix == ".npz":
        content, real = {"recording": arguments.recorded.name}, []
        unchanged, slower = _recorded(arguments.recorded, arguments.method)
    else:
        content = json.loads(arguments.recorded.read_text()) if arguments.recorded else {}
        if not arguments.recorded:
            with ended_early:
                for so_far in record(arguments):
                    content = so_far
        if lacking := [key for key in POOLS if key not in content]:
            print(f"nothing to replay: there are no {', '.join(lacking)}")
            return UNDECIDED
        real = msgspec.convert(content["real_sessions"], list[Ended])
        pools = [_runs(content[key]) for key in ("baseline_runs", "unchanged_runs", "own_runs")]
        unchanged = {label: [run for pool in pools for run in pool.get(label, [])] for label in pools[0]}
        slower = _runs(content["slower_runs"])
    replays = list(replayed(unchanged, slower, arguments.deals, paired="recording" in content))
    print(f"{_fewest(unchanged)} recorded whole-suite runs of {len(unchanged)} benchmarks, {len(real)} real sessions")
    print(table(real, replays))
    wrong = [asdict(ended) for ended in replays if not ended.as_it_should]
    write_record({**content, "deals": arguments.deals, "replayed_not_as_they_should": wrong}, arguments.out)
    if ended_early:
        return UNDECIDED
    return 0 if hold(real) and hold(replays) else 1


if __name__ == "__main__":
    sys.exit(main())
