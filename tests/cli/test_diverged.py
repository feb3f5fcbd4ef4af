"""A case whose loss is not finite has the status `diverged`, and the exit code is 4."""

import h5py
import numpy as np
import pytest

from conftest import needs_gpu_per_rank
from result_files import rows

ONCE = ("--size", "tiny", "--vocab", 32, "--context", 8, "--batch-size", 1, "--warmup", 0)
CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--force", "--output", "out.h5")
CUDA = ("--device", "cuda", *CPU[2:])


def diverged(path):
    (row,) = rows(path)
    assert row["status"] == "diverged"
    assert not np.isfinite(row["loss"])
    assert "-nan" not in row["reason"]
    return row


@pytest.mark.parametrize("device", [CPU, CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("mode", ["forward", "train-step"])
def test_nan_weights_diverge(paceline, tmp_path, mode, device):
    needs_gpu_per_rank("nccl" if device == CUDA else "mpi", 1)
    dump = ("--dump", "dump.h5")
    assert paceline("model", *ONCE, *device, "--steps", 1, *dump).code == 0
    with h5py.File(tmp_path / "dump.h5") as f, h5py.File(tmp_path / "nan.h5", "w") as bad:
        for name, values in f["weights"].items():
            bad[name] = np.full_like(values[:], np.nan)
    args = ("--load-weights", "nan.h5", "--mode", mode)
    done = paceline("model", *ONCE, *device, "--steps", 2, *args)
    assert done.code == 4
    assert "diverged: the loss is nan" in done.out
    assert done.message.startswith("paceline: 'model': diverged: the loss is nan")
    assert "check --load-weights" in done.message
    assert "--load-weights" in diverged(tmp_path / "out.h5")["reason"]


@pytest.mark.parametrize("experiment", [("model",), ("zero", "--shard", "zero1")], ids=str)
def test_a_too_high_learning_rate_diverges(paceline, tmp_path, experiment):
    """--resume measures the case again."""
    line = (*experiment, *ONCE, "--lr", 1e6, "--steps", 20, *CPU[:-3], "--output", "out.h5")
    for flag in ((), ("--resume",)) if experiment == ("model",) else ((),):
        done = paceline(*line, *flag, ranks=2)
        assert done.code == 4, done.err
        assert "diverged" in done.out
        diverged(tmp_path / "out.h5")


def test_the_printed_table_has_the_loss(paceline, tmp_path):
    done = paceline("model", *ONCE, *CPU, "--steps", 1)
    assert done.code == 0
    (row,) = rows(tmp_path / "out.h5")
    table = [line.split() for line in done.out.splitlines() if line]
    (head,) = [line for line in table if "loss" in line]
    shown = table[table.index(head) + 1]
    assert float(shown[-1]) == pytest.approx(row["loss"], rel=5e-3)


# After the first update the gradients overflow fp16 until the loss scale has fallen far enough.
OVERFLOWING = (*ONCE[:-2], "--precision", "fp16")


@pytest.mark.parametrize("experiment", [("model",), ("zero", "--shard", "zero1")], ids=str)
def test_steps_that_are_all_skipped_diverge(paceline, tmp_path, experiment):
    line = (*OVERFLOWING, "--lr", 0.7, "--seed", 2, "--warmup", 1, "--steps", 1)
    done = paceline(*experiment, *line, *CPU, ranks=2)
    assert done.code == 4, done.err
    (row,) = rows(tmp_path / "out.h5")
    assert (row["status"], row["skipped_steps"]) == ("diverged", 1)
    assert row["reason"].startswith("all 1 measured steps were skipped")
    assert np.isfinite(row["loss"])


def test_some_skipped_steps_are_counted_and_warned_of(paceline, tmp_path):
    """Those of the measured steps. Logits of hundreds make gradients that overflow fp16 until the
    loss scale has been halved often enough."""
    assert paceline("model", *ONCE, *CPU, "--steps", 1, "--dump", "dump.h5").code == 0
    with h5py.File(tmp_path / "dump.h5") as f, h5py.File(tmp_path / "large.h5", "w") as large:
        for name, values in f["weights"].items():
            large[name] = values[:] * (512 if name == "ln_final.weight" else 1)
    skipped = []
    for warmup in (0, 4, 30):
        line = ("model", *OVERFLOWING, "--lr", 1e-6, "--warmup", warmup, *CPU, "--steps", 20)
        done = paceline(*line, "--load-weights", "large.h5", "--force")
        assert done.code == 0, done.err
        (row,) = rows(tmp_path / "out.h5")
        skipped.append(row["skipped_steps"])
        assert ("skipped_steps" in row["warnings"]) == (skipped[-1] > 0)
        assert ("warning: skipped_steps" in done.out) == (skipped[-1] > 0)
    assert skipped[0] - 4 == skipped[1] > skipped[2] == 0


@pytest.mark.parametrize(
    "options", [("--precision", "bf16"), ("--precision", "fp16", "--mode", "forward")], ids=str
)
def test_without_loss_scaling_no_step_is_counted_as_skipped(paceline, tmp_path, options):
    assert paceline("model", *ONCE, *CPU, *options, "--steps", 2).code == 0
    (row,) = rows(tmp_path / "out.h5")
    assert "skipped_steps" not in row
