"""Random command lines of every experiment end with plausible rows or with one error line."""

import pytest

from random_use import judge


@pytest.mark.parametrize("seed", range(60))
def test_random_command_line(seed):
    outcome = judge.run_seed(seed)
    assert not outcome.complaint, judge.shown(outcome.use)
