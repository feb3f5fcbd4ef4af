"""Ranks started with different command lines end with code 2 before anything runs.

Ranks compare over MPI, which only commands that measure start. A rank that is refused ends the
others while they start it; one that measures nothing ends, and the others after --timeout.
"""

import pytest

from conftest import NO_MPI, PROGRAM, WRITE_CODE, run_line

TINY = ("--size", "tiny", "--context", 8, "--device", "cpu", "--warmup", 0, "--steps", 1)
MODEL = ("model", *TINY)
BAD = (*MODEL, "--bad")


def mixed(folder, *lines, shell=()):
    """One rank per command line."""
    words = ["mpirun", "--oversubscribe"]
    for i, line in enumerate(lines):
        words += [":"] if i else []
        words += ["-np", "1", *shell, PROGRAM, *line]
    return run_line(folder, words)


def with_codes(folder, *lines):
    """The same, with each rank's exit code; the launch then ends with 0."""
    done = mixed(folder, *lines, shell=("sh", "-c", WRITE_CODE, "sh"))
    return done, [int((folder / f"code.{rank}").read_text()) for rank in range(len(lines))]


DDP = ("ddp", *TINY)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        pytest.param(
            [MODEL, (*MODEL, "--seed", 1), MODEL], "--seed: not given (ranks 0, 2), 1 (rank 1)",
            id="option",
        ),
        pytest.param([(*DDP, "--sync", "naive"), (*DDP, "--sync", "flat")], "--sync: naive",
                     id="strategy"),
        pytest.param([("info",), MODEL], "experiment: info (rank 0), model (rank 1)",
                     id="experiment"),
    ],
)  # fmt: skip
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
        ([BAD, MODEL], "--bad: unknown option of 'model'; "),
        ([("list",), BAD], "(rank 1)"),
    ],
    ids=["all", "rank 1", "rank 0", "rank 1 of two"],
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
    run = run_line(tmp_path, words)
    assert run.code == 2
    assert f"working folder: {tmp_path} (rank 0), {tmp_path}/other (rank 1); " in run.message
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("ranks", "words"),
    [(0, ("--help",)), (0, ("list",)), (0, ("plan", "--size", "tiny")), (3, ("--help",))],
)
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
