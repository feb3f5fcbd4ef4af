"""Random command lines of every experiment end with plausible rows or with one error line."""

import pytest

from random_use import judge


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(10, 50))]
)
def test_random_command_line(seed):
    outcome = judge.run_seed(seed)
    assert not outcome.complaint, judge.shown(outcome.use)


@pytest.mark.parametrize("seed", range(500_000, 500_008))
def test_random_command_line_in_an_environment(seed):
    outcome = judge.run_seed(seed, environments=True)
    assert not outcome.complaint, judge.shown(outcome.use)
