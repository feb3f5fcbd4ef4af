"""The program under mpirun: ranks agree, and rank 0 of several computes what a single rank does."""

import h5py
import numpy as np

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
