"""--verify has no false positives: random correct configurations of ddp and zero pass it."""

import pytest

import random_training


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 10))]
)
def test_correct_training_passes(seed):
    line, code, table = random_training.run(seed)
    assert code == 0, (line, [row["reason"] for row in table])
    assert len(table) >= 4
    assert {row["status"] for row in table} == {"ok"}
