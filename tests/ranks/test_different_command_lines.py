"""Ranks started with different command lines end with code 2 before anything runs.

Ranks compare over MPI, which only commands that measure start. A rank that is refused ends the
others while they start it; one that measures nothing ends, and the others after --timeout.
"""

import subprocess

import pytest

from conftest import NO_MPI, PROGRAM, WRITE_CODE, Run
from result_files import summary

TINY = ("--size", "tiny", "--context", 8, "--device", "cpu", "--warmup", 0, "--steps", 1)
MODEL = ("model", *TINY)
BAD = (*MODEL, "--bad")


def mixed(folder, *lines, shell=()):
    """One rank per command line."""
    words = ["mpirun", "--oversubscribe"]
    for i, line in enumerate(lines):
        words += [":"] if i else []
        words += ["-np", "1", *shell, str(PROGRAM), *map(str, line)]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return Run(done.returncode, done.stdout, done.stderr)


def with_codes(folder, *lines):
    """The same, with each rank's exit code; the launch then ends with 0."""
    done = mixed(folder, *lines, shell=("sh", "-c", WRITE_CODE, "sh"))
    return done, [int((folder / f"code.{rank}").read_text()) for rank in range(len(lines))]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            [("model", *TINY), ("model", *TINY, "--seed", 1), ("model", *TINY)],
            "--seed: not given (ranks 0, 2), 1 (rank 1)",
        ),
        ([("ddp", *TINY, "--sync", "naive"), ("ddp", *TINY, "--sync", "flat")], "--sync: naive"),
        ([("info",), ("model", *TINY)], "experiment: info (rank 0), model (rank 1)"),
    ],
    ids=["option", "strategy", "experiment"],
)
def test_code_2_on_every_rank_and_one_line_that_says_why(tmp_path, lines, says):
    done, codes = with_codes(tmp_path, *lines)
    assert codes == [2] * len(lines)
    assert says in done.message
    assert done.out == ""
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([BAD, BAD, BAD], "--bad: unknown option of 'model'; "),
        ([MODEL, BAD], "(rank 1)"),
        ([MODEL, BAD, BAD], "(rank 1)"),
        ([BAD, MODEL], "--bad: unknown option of 'model'; "),
        ([BAD, ("merge", "a.h5")], "--bad: unknown option of 'model'; "),
        ([("list",), BAD], "(rank 1)"),
    ],
    ids=["all", "rank 1", "ranks 1 and 2", "rank 0", "rank 0 of two that read", "rank 1 of two"],
)
def test_a_rank_that_is_refused_ends_the_launch(tmp_path, lines, says):
    done = mixed(tmp_path, *lines)
    assert done.code == 2
    assert "--bad: unknown option of 'model'" in done.message
    assert says in done.message
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
    done = mixed(tmp_path, (*line, "1GB"), (*line, "2GB"))
    assert done.code == 0, done.err
    assert summary(tmp_path / "out.h5")["status"] == ["ok"]


@pytest.mark.parametrize("ranks", [0, 3])
@pytest.mark.parametrize("words", [("--help",), ("list",), ("plan", "--size", "tiny")])
def test_what_measures_nothing_starts_no_mpi(paceline, words, ranks):
    """Login nodes may have none that starts; in a task of srun other ranks never call it."""
    done = paceline(*words, ranks=ranks, env=NO_MPI)
    assert (done.code, done.err) == (0, "")
    assert done.out == paceline(*words).out


@pytest.mark.parametrize("ranks", [0, 3])
def test_a_usage_error_starts_no_mpi(paceline, ranks):
    done = paceline(*BAD, ranks=ranks, env=NO_MPI)
    assert done.code == 2
    assert done.message.startswith("paceline: --bad: unknown option of 'model'; ")


def test_info_of_one_process_starts_no_mpi(paceline):
    done = paceline("info", "--device", "cpu", env=NO_MPI)
    assert done.code == 0, done.err
    assert "Open MPI" in done.out
