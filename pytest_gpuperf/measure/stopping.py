"""When there are enough trials: by count, then by the precision of their mean, or out of time."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pytest_gpuperf.measure.summary import effective_trials, half_width, lag1_autocorrelation, mean_and_sd
from pytest_gpuperf.settings import BenchmarkSettings

LEAST_TRIALS = 20
LEAST_SHORT_TRIALS = 100
SHORT_US = 100.0
MOST_TRIALS = 2000
"""More trials of one run cannot tell anything that fresh runs would not tell better."""
TRIALS_AT_A_TIME = 50
SHARE_OF_EFFECT = 0.25
GROWTH = 1.25
"""The precision is looked at again when the trials have grown by this factor, so that looking costs little."""


def least_trials(times_us: Sequence[float]) -> int:
    """The least number of trials: more where single ones are short."""
    return LEAST_SHORT_TRIALS if median(times_us) < SHORT_US else LEAST_TRIALS


def precise_enough(times_us: Sequence[float], min_effect: float) -> bool:
    """Whether the 95 % half-width of the mean, at the effective sample size, is under a quarter of the effect."""
    mean, sd = mean_and_sd(times_us)
    effective = effective_trials(len(times_us), lag1_autocorrelation(times_us))
    return half_width(sd, effective) <= SHARE_OF_EFFECT * min_effect * mean


def precise_log_mean(logs: Sequence[float], min_effect: float) -> bool:
    """Whether the 95 % half-width of a mean of logs, such as log ratios, is under a quarter of the effect."""
    _, sd = mean_and_sd(logs)
    return half_width(sd, effective_trials(len(logs), lag1_autocorrelation(logs))) <= SHARE_OF_EFFECT * min_effect


class Stopping:
    """Decides, batch by batch, how many more trials one measurement needs."""

    def __init__(self, settings: BenchmarkSettings, least_timed_us: float) -> None:
        self._settings = settings
        self._least_timed_us = least_timed_us
        self._next_look = 0

    def wanted(self, times_us: Sequence[float], cycles: Sequence[float], elapsed_us: float) -> int:
        """Return how many more trials are wanted at least, 0 when there are enough.

        `cycles` are the same trials in cycles of the device's clock, empty where that was not metered: where the clock
        wanders, they are precise long before the times are, and it is the clock-adjusted time that is tested.
        """
        count = len(times_us)
        if self._settings.trials is not None:
            return max(self._settings.trials - count, 0)
        least = least_trials(times_us) if times_us else LEAST_TRIALS
        if count < least:
            return least - count
        if elapsed_us >= self._settings.max_time * 1e6 or count >= MOST_TRIALS:
            return 0
        if elapsed_us < self._least_timed_us:
            return min(TRIALS_AT_A_TIME, MOST_TRIALS - count)
        return self._until_precise(times_us, cycles)

    def _until_precise(self, times_us: Sequence[float], cycles: Sequence[float]) -> int:
        count = len(times_us)
        if count < self._next_look:
            return self._next_look - count
        effect = self._settings.min_effect
        if precise_enough(times_us, effect) or (cycles and precise_enough(cycles, effect)):
            return 0
        self._next_look = min(int(count * GROWTH) + 1, MOST_TRIALS)
        return self._next_look - count
