"""Random command lines of every experiment end with plausible rows or with one error line.

A command line is determined by its seed. After exit code 0 there must be a complete result file and
no other file, after 2 or 3 no file at all, after 4 a row with the status diverged. Any other code,
and a run of more than 150 s, is a failure. Some launches are followed by another use of the file:
--resume, --force, merge, compare. SOAK_DEVICE=cuda in the environment runs them on GPUs.
"""

import pytest

from conftest import seeds
from random_use import judge


@pytest.mark.parametrize("seed", seeds(0, 2, 50))
def test_random_command_line(seed):
    outcome = judge.run_seed(seed)
    assert not outcome.complaint, judge.shown(outcome.use)


@pytest.mark.parametrize("seed", seeds(500_000, 2, 8))
def test_random_command_line_in_an_environment(seed):
    outcome = judge.run_seed(seed, environments=True)
    assert not outcome.complaint, judge.shown(outcome.use)
