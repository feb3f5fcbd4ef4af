"""The interval of a median, widened for autocorrelation: docs/measuring.md has the rule, and
src/measure/statistics.h the same."""

from math import comb, floor, nan, sqrt

import numpy as np

ODDS = 40  # on each side of the interval one in 40 is missed: 95%


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """Its ends; NaN below 6 values."""
    rank = interval_rank(values, ODDS)
    ordered = np.sort(values)
    return (float(ordered[rank - 1]), float(ordered[-rank])) if rank else (nan, nan)


def interval_rank(values: np.ndarray, odds: int) -> int:
    """k, for the interval from the k-th smallest to the k-th largest of `values`, which are in the
    order of their measurement; 0 if even the smallest is no bound."""
    rank = binomial_rank(len(values), odds)
    middle = (len(values) + 1) / 2
    reach = (middle - rank) * sqrt(autocorrelation_time(values))
    return max(1, floor(middle - reach)) if rank else 0


def binomial_rank(n: int, odds: int) -> int:
    """The largest k with P(Binomial(n, 1/2) < k) <= 1 / odds."""
    below, rank = 0, 0
    while odds * (below := below + comb(n, rank)) <= 2**n:
        rank += 1
    return rank


def autocorrelation_time(values: np.ndarray) -> float:
    """The number of values that are worth one independent value, at least 1."""
    signs = np.sign(np.asarray(values) - np.median(values))
    n, of_itself = len(signs), signs @ signs
    if of_itself == 0:
        return 1.0
    time, lag = 1.0, 0
    while lag < 3 * time and lag + 1 < n:
        lag += 1
        time += 2 * (signs[lag:] @ signs[:-lag]) / of_itself
    return max(1.0, float(time) * (1 + (2 * lag + 1) / n))
