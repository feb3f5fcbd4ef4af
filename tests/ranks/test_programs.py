"""GoogleTest under mpirun: collectives, groups, data parallelism, sharding with MPI and NCCL."""

import pytest

from conftest import BUILD, needs_gpu_per_rank, run_line

# The number of ranks by program; those in test-long add no path that fewer ranks do not take.
RANKS = {
    "communicator_test": ((1, 3), (2, 4, 6)),
    "process_groups_test": ((4,), (6,)),
    "gradient_sync_test": ((1, 3), (2, 4)),
    "optimizer_sharding_test": ((1, 3), (2, 4)),
    "step_phases_test": ((2,), (1, 5)),
}


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
@pytest.mark.parametrize(
    ("program", "ranks"),
    [
        pytest.param(program, ranks, marks=pytest.mark.long if ranks in rest else ())
        for program, (few, rest) in RANKS.items()
        for ranks in (*few, *rest)
    ],
)
def test_every_rank_passes(tmp_path, program, ranks, backend):
    needs_gpu_per_rank(backend, ranks)
    launch = ("mpirun", "--oversubscribe", "-np", ranks)
    done = run_line(tmp_path, [*launch, BUILD / program, backend, "--gtest_brief=1"])
    assert done.code == 0, done.out + done.err
