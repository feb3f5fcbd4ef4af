"""The ratio of runs with its interval, and the verdict, by the rule of docs/measuring.md."""

import importlib.util
from math import isnan, nan

import numpy as np
import pytest

from analysis.comparison import Ratio, ratio_of, verdict_of
from analysis.median_interval import autocorrelation_time, median_interval
from conftest import ROOT
from synthetic import by_turns


def spread(low, high, count=10):
    return by_turns(np.linspace(low, high, count))


def pairs_of(ratios):
    """Pairs with these ratios; the repetitions of each run vary by far more."""
    levels = range(1, len(ratios) + 1)
    return [
        (spread(level / 4, level * 7 / 4), ratio * spread(level / 4, level * 7 / 4))
        for level, ratio in zip(levels, ratios, strict=True)
    ]


def test_one_pair_allows_for_the_spread_of_both():
    """Spreads 1.2 / 1 and 3.6 / 2.4, medians 1.1 and 3; 60 and 10 independent repetitions."""
    found = ratio_of([(spread(1, 1.2, 60), spread(2.4, 3.6))])
    factor = 1.2 * 1.5 ** np.sqrt(6)
    expected = (3 / 1.1, 3 / 1.1 / factor, 3 / 1.1 * factor)
    assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-12)


def test_autocorrelated_repetitions_count_for_fewer():
    """60 repetitions, the short ones first; and pairs with rising ratios."""
    steps = np.repeat([1.0, 1.1], 30)
    found = ratio_of([(steps, steps[::-1])])
    exponent = np.sqrt(autocorrelation_time(steps))
    assert exponent > 3
    assert found.high == pytest.approx(1.1 ** (2 * exponent), rel=1e-12)
    rising = ratio_of(pairs_of(range(1, 41)))
    assert (rising.low, rising.high) == pytest.approx((1, 40), rel=1e-12)


@pytest.mark.parametrize(
    ("signs", "time", "rank"),
    [("+++-----+-+++-+++---", 1.74, 4), ("------++++++", 3.75, 1), ("+-" * 10, 1, 6)],
)
def test_the_interval_of_a_median(signs, time, rank):
    """As tests/unit/statistics_test.cpp derives it."""
    above, count = np.array(list(signs)) == "+", len(signs)
    values = np.empty(count)
    values[~above], values[above] = np.split(np.arange(1.0, count + 1), 2)
    assert autocorrelation_time(values) == pytest.approx(time, rel=1e-12)
    assert median_interval(values) == (rank, count + 1 - rank)
    assert all(map(isnan, median_interval(values[:5])))


def test_the_spread_is_that_of_all_repetitions():
    """Without the extremes of long runs, 9% of identical runs would be called faster or slower."""
    seconds = np.ones(100)
    seconds[50] = 1.5
    found = ratio_of([(seconds, np.full(6, 3.0))])
    assert (found.low, found.high) == pytest.approx((2, 4.5), rel=1e-12)


def test_few_pairs_allow_for_the_spread_of_all_their_repetitions():
    """Each run is steady, but A's second one is twice as slow."""
    one, two = np.ones(15), np.full(15, 2.0)
    found = ratio_of([(one, one), (two, one)])
    assert (found.value, found.low, found.high) == (0.75, 0.75 / 4, 0.75 * 4)


def test_ten_pairs_are_judged_by_their_ratios():
    ratios = [1.4, 1.1, 1.2, 1.8, 1.3, 1.7, 1.5, 1.6, 1.9]
    assert ratio_of(pairs_of(ratios)).low < 0.1
    found = ratio_of(pairs_of([*ratios, 2]))
    assert (found.value, found.low, found.high) == pytest.approx((1.55, 1.1, 2), rel=1e-12)


@pytest.mark.parametrize(
    ("count", "rank"), [(10, 1), (11, 1), (13, 1), (14, 2), (15, 2), (17, 2), (20, 3), (50, 14)]
)
def test_ranks_of_the_sign_test(count, rank):
    """By the table of the binomial distribution with p = 1/2: P(X < 1) = 1/1024 of 10, P(X < 2) =
    14/8192 of 13 (too much) and 15/16384 of 14, ..."""
    ends = [(low, count + 1 - low) for low in range(1, count // 2 + 1)]
    ratios = [*sum(ends, ()), (count + 1) / 2][:count]
    found = ratio_of(pairs_of(ratios))
    assert (found.low, found.high) == pytest.approx((rank, count + 1 - rank), rel=1e-12)


def test_every_run_needs_six_repetitions():
    ten = np.ones(10)
    assert not isnan(ratio_of([(ten, np.full(6, 3.0))]).low)
    for pair in ((ten, np.full(5, 3.0)), (np.full(5, 1 / 3), ten)):
        found = ratio_of([pair])
        assert found.value == pytest.approx(3)
        assert isnan(found.low)
        assert isnan(found.high)
        assert verdict_of(found, 0.02) == "undecided"
    assert isnan(ratio_of([]).value)


@pytest.mark.parametrize("bad", [0.0, nan])
def test_times_are_positive(bad):
    good, run = np.ones(10), np.ones(10)
    run[3] = bad
    for pair in ((good, run), (run, good)):
        assert isnan(ratio_of([pair]).low)
        assert isnan(ratio_of([pair]).high)


def test_a_run_with_itself():
    assert ratio_of([(spread(1, 9), spread(1, 9))]) == Ratio(1, 1, 1)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.26, 1.5, "slower"), (1.25, 1.5, "undecided"), (0.5, 0.79, "faster"),
        (0.5, 0.8, "undecided"), (0.8, 1.25, "same"), (0.79, 1.25, "undecided"),
        (0.8, 1.26, "undecided"),
    ],
)  # fmt: skip
def test_the_interval_lies_beyond_or_within_the_threshold(low, high, verdict):
    assert verdict_of(Ratio(1, low, high), 0.25) == verdict


def false_alarms():
    """The module bench/false_alarms.py, which is not in a package."""
    spec = importlib.util.spec_from_file_location(
        "false_alarms", ROOT / "bench" / "false_alarms.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("size", [1, 4, 10])
@pytest.mark.parametrize(
    ("series", "count"),
    [("identical_runs", 200), ("identical_long_runs", 100), ("identical_runs_of_100", 60)],
)
def test_identical_runs_beside_a_busy_loop(series, count, size):
    """On series recorded by bench/false_alarms.py; see docs/measuring.md."""
    bench = false_alarms()
    pairs = bench.pairs_of(ROOT / "tests" / "golden" / f"{series}.h5")
    assert len(pairs) == count
    found = bench.ratios(pairs, size)
    assert len(found) == count - size + 1
    assert bench.false_alarms(found) <= 0.01 * len(found)


def test_the_smallest_slowdown_that_is_found():
    bench = false_alarms()
    found = [Ratio(1, low, 2) for low in (0.5, 0.51, 0.68, 1.02, 1.0)]
    assert bench.smallest_found(found) == pytest.approx(1)  # with 0.51 doubled, the fourth of five
    assert bench.false_alarms([*found, Ratio(1, 1.021, 2), Ratio(1, 0.1, 0.98)]) == 2
    pairs = bench.simulated(0, 10)
    assert pairs.shape == (500, 2, 10)
    assert np.log(pairs).std() == pytest.approx(0.01, rel=0.05)
    (row,) = bench.rows("simulated, 1%, r_1 = 0", pairs)
    assert row[0] in (ROOT / "docs/measuring.md").read_text("utf-8")
