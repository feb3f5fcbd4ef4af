"""The program under mpirun: ranks agree, and rank 0 of several computes what a single rank does."""

import h5py
import numpy as np
import pytest

from conftest import PATIENCE, command, run_line
from result_files import summary

CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--output", "out.h5")
TINY = ("model", "--size", "tiny", "--vocab", 64, "--context", 16, *CPU)


def dumped(path):
    values = {}
    with h5py.File(path) as f:
        f.visititems(
            lambda name, item: (
                values.__setitem__(name, item[:]) if isinstance(item, h5py.Dataset) else None
            )
        )
    return values


def test_rank_0_of_many_equals_one_rank_bit_for_bit(paceline, tmp_path):
    args = (*TINY, "--force", "--warmup", 0, "--steps", 3, "--dump", "dump.h5")
    assert paceline(*args).code == 0
    alone = dumped(tmp_path / "dump.h5")
    assert paceline(*args, ranks=2).code == 0
    together = dumped(tmp_path / "dump.h5")
    assert alone.keys() == together.keys()
    assert {"loss", "logits"} < alone.keys()
    for name, want in alone.items():
        np.testing.assert_array_equal(together[name], want, err_msg=name)


def test_every_rank_s_samples_are_in_the_file(paceline, tmp_path):
    done = paceline(*TINY, "--warmup", 2, "--steps", 7, ranks=3)
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "out.h5") as f:
        assert f.attrs["schema"] == "paceline"
        assert f.attrs["complete"]
        assert list(f["ranks/rank"][:]) == [0, 1, 2]
        (case,) = f["cases"].values()
        assert set(case["samples"]) == {"forward", "backward", "optimizer", "step"}
        for phase in case["samples"].values():
            assert phase.shape == (3, 7)
            assert (phase[:] > 0).all()
            assert phase.attrs["unit"] == "s"
        # The rehearsal, then two warm-up steps.
        assert case["samples_warmup/step"].shape == (3, 3)
        parts = sum(case[f"samples/{p}"][:] for p in ("forward", "backward", "optimizer"))
        assert (parts <= case["samples/step"][:] * 1.001).all()
        slowest = case["samples/step"][:].max(axis=0)
    assert summary(tmp_path / "out.h5")["step_median_s"][0] == pytest.approx(np.median(slowest))


def test_ranks_take_their_own_rows_of_the_global_batch(paceline, tmp_path):
    """The loss of rank 1 of 2 at batch 1 equals that of a single rank with the same row."""
    paceline(*TINY, "--batch-size", 1, "--warmup", 0, "--steps", 1, "--mode", "forward", ranks=2)
    with h5py.File(tmp_path / "out.h5") as f:
        (case,) = f["cases"].values()
        losses = case["values/loss"][:]
    assert losses[0] != losses[1]
    paceline(
        *(*TINY, "--force", "--batch-size", 2, "--warmup", 0, "--steps", 1, "--mode", "forward")
    )
    with h5py.File(tmp_path / "out.h5") as f:
        (case,) = f["cases"].values()
        assert case["values/loss"][0] == pytest.approx(losses.mean(), rel=1e-6)


def test_one_rank_alone_out_of_memory_is_a_row_for_all_and_the_sweep_goes_on(tmp_path):
    """Context 256 does not fit rank 1's limit, context 8 does."""
    args = ("model", "--size", "tiny", "--vocab", 128, "--context", "256,8", *CPU)
    mine = command(1, *args, "--warmup", 0, "--steps", 1, "--timeout", PATIENCE / 4)
    launch = [*mine, ":", *mine[mine.index("-np") :], "--memory-limit", "8MB"]
    done = run_line(tmp_path, launch)
    assert done.code == 0, done.err
    s = summary(tmp_path / "out.h5")
    assert s["status"] == ["oom", "ok"]
    assert s["reason"][0].startswith("rank 1: about ")
    assert "MB are needed, 8.00 MB are available; 'forward/" in s["reason"][0]
    assert " of 8.00 MB in use" in s["reason"][0]
    with h5py.File(tmp_path / "out.h5") as f:
        assert f.attrs["complete"]
        assert f[f"cases/{s['case'][1]}/samples/step"].shape == (2, 1)
