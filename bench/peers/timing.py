"""Samples of a step: the warm-up rule and the statistics of docs/measuring.md. Does not import
PyTorch."""

import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from analysis.median_interval import median_interval

STEADY_REPETITIONS, STEADY_S = 10, 2.0  # the repetitions in which a trend is looked for


def has_trend(seconds: Sequence[float]) -> bool:
    """Mann-Kendall at 5%, and medians of the halves that differ by more than 0.5%."""
    n = len(seconds)
    rising = sum((b > a) - (b < a) for i, a in enumerate(seconds) for b in seconds[i + 1 :])
    sign = (rising > 0) - (rising < 0)
    deviations = abs(rising - sign) / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    halves = [statistics.median(half) for half in (seconds[: n // 2], seconds[(n + 1) // 2 :])]
    return deviations > 1.96 and abs(halves[1] / halves[0] - 1) > 0.005


def is_steady(seconds: Sequence[float]) -> bool:
    """Whether the last repetitions, at least 10 and at least 2 s, have no trend."""
    count, total = 0, 0.0
    for one in reversed(seconds):
        count, total = count + 1, total + one
        if count >= STEADY_REPETITIONS and total >= STEADY_S:
            return not has_trend(seconds[-count:])
    return False


def seconds_of(step: Callable[[], object], synchronize: Callable[[], object]) -> float:
    """By the host's clock, from one idle moment of the device to the next."""
    synchronize()
    began = time.perf_counter()
    step()
    synchronize()
    return time.perf_counter() - began


def warmed_up(sample: Callable[[], float], fewest: int, most: int) -> tuple[list[float], str]:
    """The warm-up's samples and why it ended: warmup, steady or max_warmup, as in paceline's files.
    It ends after `fewest`; if `most` is more, when it is steady, and after `most` in any case."""
    seconds = [sample() for _ in range(fewest)]
    if most <= fewest:
        return seconds, "warmup"
    while len(seconds) < most:
        if is_steady(seconds):
            return seconds, "steady"
        seconds.append(sample())
    return seconds, "max_warmup"


def measured(sample: Callable[[], float], warmup: int, most: int, steps: int) -> dict[str, object]:
    """The columns of a row: warm-up and samples of the step on the only rank, and statistics."""
    before, reason = warmed_up(sample, warmup, most)
    seconds = [[sample() for _ in range(steps)]]
    return summary("step", seconds) | {
        "warmup_reason": reason,
        "samples": {"step": seconds},
        "samples_warmup": {"step": [before]},
    }


def summary(phase: str, seconds: Sequence[Sequence[float]]) -> dict[str, float]:
    """The statistics of samples [rank][repetition] over repetitions, each the maximum over ranks,
    by the names of /summary."""
    slowest = [max(of_ranks) for of_ranks in zip(*seconds, strict=True)]
    low, high = median_interval(np.array(slowest))
    x = sorted(slowest)
    n = len(x)
    figures = {
        "median": statistics.median(x),
        "ci_low": low,
        "ci_high": high,
        "mean": statistics.fmean(x),
        "std": statistics.stdev(x) if n > 1 else math.nan,
        "min": x[0],
        "max": x[-1],
        "p95": x[math.ceil(0.95 * n) - 1],
    }
    return {f"{phase}_{name}_s": value for name, value in figures.items()}
