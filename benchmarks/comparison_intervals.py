"""How often the interval of a comparison leaves out the truth: two functions of identical code, timed in turn.

The first row is what `gpubench.compare` does. Stretches of rounds from long measurements tell what part of the misses
the rounds themselves make: the rest is a difference that stays for as long as a measurement does, such as another
number of calls in a trial. The last two are other ways to read the runs of the first: Student's t on all rounds as they
are, and Welch's interval on all trials, as if nothing were paired.

    python benchmarks/comparison_intervals.py [COMPARISONS]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from math import exp
from statistics import fmean, median

from early_end import EndedEarly

from pytest_gpuperf.compare.pairs import PairedRatio, paired_ratio
from pytest_gpuperf.measure.backends.cpu import CpuBackend, cpu_model
from pytest_gpuperf.measure.interleaved import LEAST_ROUNDS, Interleaved, measure_interleaved
from pytest_gpuperf.measure.plan import BenchmarkId, Plan
from pytest_gpuperf.measure.summary import half_width, mean_and_sd
from pytest_gpuperf.settings import BenchmarkSettings

COMPARISONS = 150
LONG = 12
LONG_TRIALS = 1200


def one() -> int:
    """Sum some numbers."""
    return sum(range(3000))


def other() -> int:
    """Sum the same numbers."""
    return sum(range(3000))


def measured(settings: BenchmarkSettings) -> Interleaved:
    """Return one comparison of the two functions."""
    plan = Plan(benchmark=BenchmarkId(node_id="comparison"), settings=settings)
    return measure_interleaved([(one, plan), (other, plan)], CpuBackend())


def misses(ratio: PairedRatio | None) -> bool:
    """Whether the interval leaves out 1."""
    assert ratio is not None
    return not ratio.low <= 1.0 <= ratio.high


def by_rounds(found: Interleaved) -> PairedRatio:
    """Return the interval that Student's t on the single rounds gives."""
    one_logs, other_logs = found.log_times
    logs = [one_logs[number] - other_logs[number] for number in one_logs.keys() & other_logs.keys()]
    middle, sd = mean_and_sd(logs)
    return interval(middle, half_width(sd, len(logs)), len(logs))


def by_trials(found: Interleaved) -> PairedRatio:
    """Return the interval that Welch's t on the trials gives."""
    from scipy import stats

    first, second = (measurement.trials.times_us for measurement in found.measurements)
    between = stats.ttest_ind(first, second, equal_var=False).confidence_interval()
    scale = fmean(second)
    return PairedRatio(
        ratio=fmean(first) / scale, low=1 + between.low / scale, high=1 + between.high / scale, rounds=len(first)
    )


def interval(middle: float, reach: float, rounds: int) -> PairedRatio:
    """Return the ratio of a log ratio with its reach."""
    return PairedRatio(ratio=exp(middle), low=exp(middle - reach), high=exp(middle + reach), rounds=rounds)


def stretches(found: Interleaved) -> list[PairedRatio | None]:
    """Return the ratios of consecutive stretches of rounds."""
    one_logs, other_logs = found.log_times
    numbers = sorted(one_logs.keys() & other_logs.keys())
    starts = range(0, len(numbers) - LEAST_ROUNDS + 1, LEAST_ROUNDS)
    parts = [numbers[start : start + LEAST_ROUNDS] for start in starts]
    return [paired_ratio({n: one_logs[n] for n in part}, {n: other_logs[n] for n in part}) for part in parts]


def main() -> None:
    """Compare as often as asked, and print the shares of misses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", nargs="?", type=int, default=COMPARISONS, help=f"default: {COMPARISONS}")
    arguments = parser.parse_args()
    runs: list[Interleaved] = []
    parts: list[PairedRatio | None] = []
    with EndedEarly():
        for _ in range(arguments.comparisons):
            runs += [measured(BenchmarkSettings(max_time=0.15))]
        for _ in range(LONG):
            parts += stretches(measured(BenchmarkSettings(trials=LONG_TRIALS)))
    print(f"{cpu_model()}, {os.cpu_count()} cores, load average {os.getloadavg()[1]:.1f}")
    print("identical functions; a 95 % interval should miss in 5 %\n")
    tell("gpubench.compare", [paired_ratio(*run.log_times) for run in runs])
    tell(f"the same, stretches of {LEAST_ROUNDS} rounds", parts)
    tell("t on single rounds", [by_rounds(run) for run in runs])
    tell("Welch on trials", [by_trials(run) for run in runs])


def tell(what: str, ratios: Sequence[PairedRatio | None]) -> None:
    """Print how often intervals miss, and how wide they are; nothing of what was not measured."""
    if not ratios:
        return
    width = median(ratio.high - ratio.low for ratio in ratios if ratio is not None)
    print(f"{what:<32} missed in {sum(map(misses, ratios)):>3} of {len(ratios)}; median width {width:.1%}")


if __name__ == "__main__":
    main()
