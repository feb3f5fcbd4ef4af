"""Out of memory at set-up, in forward, in backward or in the optimizer: all ranks record a row, and
the next case runs as in a new process."""

import pytest

from conftest import PATIENCE, command, run_line
from result_files import summary

OUTPUT = ("--output", "out.h5")
RUN = ("--device", "cpu", "--threads", 1, "--warmup", 0, "--steps", 2, "--seed", 7, "--quiet")
STEP = ("--context", 4, "--batch-size", 1, *RUN)  # parameters need far more memory than activations
TRAININGS = {
    "model": ("model",),
    "ddp": ("ddp", "--sync", "bucketed"),
    "broadcast": ("zero", "--shard", "broadcast"),
    "zero1": ("zero", "--shard", "zero1"),
    "zero2": ("zero", "--shard", "zero2"),
    "fsdp": ("zero", "--shard", "fsdp"),
}
ATTENTION = ("attention", "--attention", "naive", "--cache", "warm")
FOUND = {
    "model": ("loss", "peak_bytes", "predicted_peak_bytes"),
    "attention": ("error_o", "error_dq", "error_dk", "error_dv", "peak_bytes"),
}


def ranks_of(training):
    return 0 if training == "model" else 2


@pytest.fixture
def next_is_fresh(paceline, tmp_path):
    """The first case ran out of memory at the place; the second has the same results as alone."""

    def check(place, found, *alone, ranks):
        assert paceline(*alone, "--output", "alone.h5", ranks=ranks).code == 0
        sweep, single = summary(tmp_path / "out.h5"), summary(tmp_path / "alone.h5")
        assert sweep["status"] == ["oom", "ok"]
        assert place in sweep["reason"][0]
        for name in ("case", *found):
            assert sweep[name][1] == single[name][0], name

    return check


@pytest.mark.parametrize(
    "training",
    ["model", "ddp", "fsdp",
     *(pytest.param(one, marks=pytest.mark.long) for one in ("broadcast", "zero1", "zero2"))],
)  # fmt: skip
def test_at_set_up(paceline, next_is_fresh, training):
    ranks = ranks_of(training)
    run = (*TRAININGS[training], *STEP)
    limit = "200MB" if training == "fsdp" else "400MB"
    done = paceline(*run, "--size", "small,tiny", "--memory-limit", limit, *OUTPUT, ranks=ranks)
    assert done.code == 0, done.err
    next_is_fresh("'parameters'", FOUND["model"], *run, "--size", "tiny", ranks=ranks)


@pytest.mark.long
@pytest.mark.parametrize(
    ("training", "place", "limit"),
    [
        ("ddp", "backward/", "600MB"),
        ("ddp", "optimizer/", "1.2GB"),
        ("fsdp", "backward/", "600MB"),
        ("fsdp", "optimizer/", "900MB"),
    ],
)
def test_of_one_rank_alone(tmp_path, next_is_fresh, training, place, limit):
    run = (*TRAININGS[training], *STEP)
    mine = command(1, *run, "--size", "small,tiny", "--timeout", PATIENCE / 2, *OUTPUT)
    launch = [*mine, ":", *mine[mine.index("-np") :], "--memory-limit", limit]
    done = run_line(tmp_path, launch)
    assert done.code == 0, done.err
    next_is_fresh(f"'{place}", FOUND["model"], *run, "--size", "tiny", ranks=2)
    assert summary(tmp_path / "out.h5")["reason"][0].startswith("rank 1: ")


@pytest.mark.parametrize(
    ("experiment", "place", "limit", "cases"),
    [
        (("model", "--size", "tiny"), "'forward/", "40MB", "512,16"),
        (ATTENTION, "'operands'", "1MB", "512,16"),
        (ATTENTION, "'forward/", "3MB", "512,16"),
        (ATTENTION, "'backward/", "5MB", "512,16"),
    ],
)
def test_of_activations(paceline, next_is_fresh, experiment, place, limit, cases):
    run = (*experiment, "--batch-size", 2, *RUN)
    done = paceline(*run, "--context", cases, "--memory-limit", limit, *OUTPUT)
    assert done.code == 0, done.err
    alone = ("--context", cases.split(",")[1])
    next_is_fresh(place, FOUND[experiment[0]], *run, *alone, ranks=0)
