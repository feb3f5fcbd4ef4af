"""Sweeps killed at random moments lose nothing; tests/random_kills.py tries hundreds."""

import pytest

import random_kills


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 8))]
)
def test_a_killed_sweep_loses_nothing(tmp_path, seed):
    assert random_kills.complaints(tmp_path, seed) == []
