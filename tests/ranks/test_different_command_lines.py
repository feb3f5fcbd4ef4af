"""Ranks started with different command lines end with code 2 before anything runs."""

import subprocess

import h5py
import pytest

from conftest import PROGRAM, WRITE_CODE, Run
from result_files import summary

TINY = ("--size", "tiny", "--context", 8, "--device", "cpu", "--warmup", 0, "--steps", 1)


def mixed(folder, *lines):
    """One rank per command line; returns the run and each rank's exit code."""
    words = ["mpirun", "--oversubscribe"]
    for i, line in enumerate(lines):
        words += [":"] if i else []
        words += ["-np", "1", "sh", "-c", WRITE_CODE, "sh", str(PROGRAM), *map(str, line)]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    codes = [int((folder / f"code.{rank}").read_text()) for rank in range(len(lines))]
    return Run(done.returncode, done.stdout, done.stderr), codes


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            [("model", *TINY), ("model", *TINY, "--seed", 1), ("model", *TINY)],
            "--seed: not given (ranks 0, 2), 1 (rank 1)",
        ),
        ([("ddp", *TINY, "--sync", "naive"), ("ddp", *TINY, "--sync", "flat")], "--sync: naive"),
        ([("info",), ("info", "--help")], "experiment: info (rank 0), info --help (rank 1)"),
        ([("model", *TINY), ("model", *TINY, "--bad")], "--bad: unknown option of 'model'"),
        ([("model", *TINY, "--bad"), ("compare", "a.h5", "b.h5")], "(rank 0)"),
    ],
    ids=["option", "strategy", "experiment", "bad flag", "bad flag of rank 0"],
)
def test_code_2_on_every_rank_and_one_line_that_says_why(tmp_path, lines, says):
    done, codes = mixed(tmp_path, *lines)
    assert codes == [2] * len(lines)
    assert says in done.message
    assert done.out == ""
    assert not (tmp_path / "results").exists()


def test_ranks_in_different_folders_are_refused(tmp_path):
    """Relative paths would name different files."""
    (tmp_path / "other").mkdir()
    rank = ("-np", "1", PROGRAM, "model", *TINY)
    words = ["mpirun", "--oversubscribe", *rank, ":", "-wdir", tmp_path / "other", *rank]
    done = subprocess.run(
        list(map(str, words)), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    run = Run(done.returncode, done.stdout, done.stderr)
    assert run.code == 2
    assert f"working folder: {tmp_path} (rank 0), {tmp_path}/other (rank 1); " in run.message
    assert not (tmp_path / "results").exists()


def test_memory_limits_may_differ(tmp_path):
    line = ("model", *TINY, "--output", "out.h5", "--memory-limit")
    done, codes = mixed(tmp_path, (*line, "1GB"), (*line, "2GB"))
    assert codes == [0, 0], done.err
    assert summary(tmp_path / "out.h5")["status"] == ["ok"]


def test_help_is_printed_once(paceline):
    done = paceline("model", "--help", ranks=2)
    assert done.code == 0
    assert done.out.count("--context") == 1


def test_a_regression_is_every_rank_s_code(tmp_path, paceline):
    for name in ("a.h5", "b.h5"):
        done = paceline("model", *TINY, "--quiet", "--output", name)
        assert done.code == 0, done.err
    with h5py.File(tmp_path / "b.h5", "r+") as f:
        (case,) = f["cases"].values()
        case.attrs["status"] = "oom"
    line = ("compare", "a.h5", "b.h5")
    done, codes = mixed(tmp_path, line, line)
    assert codes == [1, 1], done.err
    assert done.out.count("no longer ok") == 2  # the row and the count, from one rank


def test_a_process_without_a_launcher_needs_no_mpi(paceline):
    """Login nodes may have none that starts."""
    done = paceline("--help", env={"OMPI_MCA_btl": "none", "OMPI_MCA_pml": "none"})
    assert done.code == 0
    assert "usage:" in done.out
