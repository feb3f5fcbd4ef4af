"""Statistics of synthetic files agree with paceline's, as in tests/unit/statistics_test.cpp."""

import numpy as np
import pytest

from synthetic import statistics


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [
        (6, 1, 6), (7, 1, 7), (8, 2, 8), (9, 2, 9), (10, 2, 10), (11, 3, 10), (20, 6, 16),
        (25, 8, 19), (100, 41, 61),
    ],
)  # fmt: skip
def test_ranks_of_the_confidence_interval(count, low, high):
    found = statistics([np.arange(1, count + 1)[::-1]])
    assert (found["ci_low"], found["ci_high"]) == (low, high)


@pytest.mark.parametrize(("count", "rank"), [(10, 10), (19, 19), (20, 19), (21, 20), (100, 95)])
def test_p95_is_the_nearest_rank(count, rank):
    assert statistics([np.arange(1, count + 1)])["p95"] == rank


def test_median_mean_min_max_and_deviation():
    """Statistics are of the slowest rank in each repetition."""
    found = statistics([[2, 1, 4, 4, 0, 5, 7, 9], [1, 4, 4, 0, 5, 5, 3, 2]])
    assert (found["median"], found["mean"], found["min"], found["max"]) == (4.5, 5, 2, 9)
    assert found["std"] == pytest.approx((32 / 7) ** 0.5, rel=1e-15)


def test_five_values_have_no_interval_and_one_has_no_deviation():
    assert np.isnan([statistics([[1] * 5])[name] for name in ("ci_low", "ci_high")]).all()
    assert np.isnan(statistics([[1]])["std"])
