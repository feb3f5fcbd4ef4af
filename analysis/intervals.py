"""Intervals of time: arrays [n, 2] of begin and end."""

import numpy as np


def union(intervals: np.ndarray) -> np.ndarray:
    """The union as disjoint intervals, in order."""
    if len(intervals) == 0:
        return np.empty((0, 2))
    begin, end = intervals[np.argsort(intervals[:, 0], kind="stable")].T
    reached = np.maximum.accumulate(end)
    first = np.concatenate([[True], begin[1:] > reached[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.column_stack([begin[first], reached[last]])


def length(intervals: np.ndarray) -> float:
    """The sum of the lengths."""
    return float((intervals[:, 1] - intervals[:, 0]).sum())


def covered(intervals: np.ndarray, by: np.ndarray) -> float:
    """The length of `intervals` that is covered by `by`."""
    by = union(by)
    if len(by) == 0:
        return 0.0
    before = np.concatenate([[0.0], np.cumsum(by[:, 1] - by[:, 0])])

    def covered_until(times: np.ndarray) -> np.ndarray:
        index = np.searchsorted(by[:, 0], times, side="right") - 1
        inside = np.minimum(times, by[index, 1]) - by[index, 0]
        return np.where(index < 0, 0.0, before[index] + inside)

    return float((covered_until(intervals[:, 1]) - covered_until(intervals[:, 0])).sum())
