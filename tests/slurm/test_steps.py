"""What runs in a step of srun without the other tasks, or without PMIx."""

import subprocess

import pytest

from conftest import PROGRAM, Run

RANK_0 = 'test $SLURM_PROCID != 0 || "$@"'  # as in a shell: the other tasks never start paceline
STEPS = [(1, '"$@"'), (4, '"$@"'), (4, RANK_0)]  # (tasks, script of each)
TINY = ("--size", "tiny", "--context", 8, "--device", "cpu", "--warmup", 0, "--steps", 1)


@pytest.fixture
def srun(cluster, tmp_path):
    """srun(tasks, mpi, script, *words): runs it on a node."""

    def run(tasks, mpi, script, *words):
        step = ("srun", "--nodes=1", f"--ntasks={tasks}", f"--mpi={mpi}", "sh", "-c", script, "sh")
        done = cluster.run(*step, PROGRAM, *words, cwd=tmp_path)
        return Run(done.returncode, done.stdout, done.stderr)

    return run


@pytest.mark.parametrize("mpi", ["pmix", "none"])
@pytest.mark.parametrize("words", [("--help",), ("list",), ("plan", "--size", "xl")])
def test_what_measures_nothing_needs_no_other_task(srun, mpi, words):
    alone = subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    for tasks, script in STEPS:
        done = srun(tasks, mpi, script, *words)
        assert (done.code, done.out, done.err) == (0, alone, "")


@pytest.mark.parametrize("mpi", ["pmix", "none"])
def test_a_refusal_needs_no_other_task(srun, mpi):
    for tasks, script in STEPS:
        done = srun(tasks, mpi, script, "model", "--bad")
        assert done.code == 2
        assert "--bad: unknown option" in done.message


def test_a_single_task_without_pmix_measures(srun):
    for words in (("info", "--device", "cpu"), ("model", *TINY, "--output", "out.h5")):
        done = srun(1, "none", '"$@"', *words)
        assert done.code == 0, done.err


def test_tasks_without_pmix_that_would_communicate_are_refused(srun):
    for tasks, words in ((1, ("ddp", *TINY)), (2, ("model", *TINY)), (2, ("info",))):
        done = srun(tasks, "none", '"$@"', *words)
        assert done.code == 3
        assert "--mpi=pmix" in done.message
