"""Speed-ups: cases that differ from a baseline only in one factor."""

from dataclasses import dataclass

import numpy as np

from .formatting import case_label, text
from .results import Results

# Factors for which speed-ups are shown, with the value that is the baseline.
BASELINES = {"precision": "fp32", "exec": "eager", "attention": "naive"}
# Options of one value of such a factor.
OPTIONS = {"attention": ("fp32_attention", "flash_kernels")}


@dataclass(frozen=True)
class Pair:
    factor: str
    names: list[str]  # of the factors that the pair's cases have in common
    shared: list[str]  # and their values
    baseline: int  # rows of Results.frame
    other: int
    labels: tuple[str, str]  # of the baseline and the other: fp32, bf16

    @property
    def label(self) -> str:
        return case_label(self.names, self.shared)


@dataclass(frozen=True)
class Ratio:
    """The baseline's time over the other's: above 1 the other case is faster."""

    value: float
    low: float
    high: float


def of(results: Results) -> list[Pair]:
    return [pair for factor in BASELINES for pair in of_factor(results, factor)]


def of_factor(results: Results, factor: str) -> list[Pair]:
    varying = results.varying
    if factor not in varying:
        return []
    own = (factor, *OPTIONS.get(factor, ()))
    names = [name for name in varying if name not in own]
    options = [name for name in own if name in varying]
    values = results.frame[list(dict.fromkeys([*names, *options]))].map(text)
    groups: dict[tuple, list[int]] = {}
    for row, key in enumerate(values[names].to_numpy().tolist()):
        groups.setdefault(tuple(key), []).append(row)
    found = []
    for key, rows in groups.items():
        baselines = [row for row in rows if values[factor][row] == BASELINES[factor]]
        for other in rows:
            if not baselines or values[factor][other] == BASELINES[factor]:
                continue
            label = case_label(options, [values[name][other] for name in options])
            labels = BASELINES[factor], label
            found.append(Pair(factor, names, list(key), baselines[0], other, labels))
    return found


def statistics(results: Results, pair: Pair, phase: str, name: str) -> np.ndarray:
    """Of the baseline and the other; NaN of a case that is not ok, such as one that diverged."""
    rows = [pair.baseline, pair.other]
    seconds = results.statistic(phase, name).to_numpy(float)[rows]
    if "status" not in results.frame:
        return seconds
    statuses = results.frame["status"].to_numpy()[rows]
    return np.where([text(status) == "ok" for status in statuses], seconds, np.nan)


def ratio(results: Results, pair: Pair, phase: str) -> Ratio:
    """The ratio of medians. Its interval combines the opposite ends of the two intervals, and so is
    at least a 90% interval."""
    median, low, high = (
        statistics(results, pair, phase, name) for name in ("median", "ci_low", "ci_high")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return Ratio(median[0] / median[1], low[0] / high[1], high[0] / low[1])


def mean_ratio(results: Results, pair: Pair, phase: str) -> tuple[float, float]:
    """The ratio of means, with its standard deviation to first order for independent times."""
    mean, deviation = (statistics(results, pair, phase, name) for name in ("mean", "std"))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = mean[0] / mean[1]
        return value, value * np.hypot(*(deviation / mean))
