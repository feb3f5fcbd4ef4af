"""--verify has no false positives: random correct configurations of ddp and zero pass it."""

import random

import pytest

from conftest import seeds
from result_files import rows

SYNCS = ("naive", "flat", "overlap", "bucketed")
SHARDS = ("none", "broadcast", "zero1", "zero2", "fsdp")


def launch(seed: int) -> tuple[int, list[object]]:
    """(ranks, arguments) of one launch of four to eight configurations."""
    rng = random.Random(seed)
    heads = rng.randint(1, 4)
    zero = rng.random() < 0.5
    strategy = (
        ("zero", "--shard", ",".join(rng.sample(SHARDS, 2)))
        if zero
        else ("ddp", "--sync", ",".join(rng.sample(SYNCS, 2)))
    )
    size = {
        "--d-model": heads * rng.choice((2, 4, 6, 8, 18, 24)),
        "--d-ff": rng.randint(1, 64),
        "--layers": rng.randint(1, 3),
        "--heads": heads,
        "--vocab": rng.randint(2, 128),
        "--batch-size": rng.randint(1, 3),
        "--seed": seed,
        "--attention": rng.choice(("naive", "fused", "flash")),
        "--recompute": rng.choice(("none", "swiglu", "block", "2")),
        "--verify": rng.randint(1, 10),
    }
    if size["--attention"] == "flash":
        size["--fp32-attention"] = rng.choice(("exact", "bf16x3", "tf32"))
    contexts = ",".join(map(str, sorted(rng.sample((1, 2, 3, 5, 8, 13, 16, 24, 32), 2))))
    once = ("--warmup", 0, "--steps", 1, "--device", "cpu", "--threads", 1, "--quiet")
    words = [*strategy, *(word for pair in size.items() for word in pair), "--context", contexts]
    if "fsdp" in strategy[2]:
        words += ["--prefetch", rng.randint(0, 4), "--reshard", rng.choice(("yes", "no", "yes,no"))]
    if zero or "bucketed" in strategy[2]:
        words += ["--bucket-mb", f"{10 ** rng.uniform(-4, 0):.4f}"]
    return rng.randint(1, 6), [*words, *once, "--output", "out.h5"]


@pytest.mark.parametrize("seed", seeds(0, 2, 10))
def test_correct_training_passes(paceline, tmp_path, seed):
    ranks, words = launch(seed)
    done = paceline(*words, ranks=ranks)
    table = rows(tmp_path / "out.h5")
    assert done.code == 0, (words, [row["reason"] for row in table])
    assert len(table) >= 4
    assert {row["status"] for row in table} == {"ok"}
