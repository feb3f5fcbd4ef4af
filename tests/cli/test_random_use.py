"""Random command lines of every experiment end with sane rows, or with one clear line."""

import pytest

from random_use import judge


@pytest.mark.parametrize("seed", range(60))
def test_it_ends_with_sane_rows_or_one_clear_line(seed):
    outcome = judge.run_seed(seed)
    assert not outcome.complaint, judge.shown(outcome.use)
