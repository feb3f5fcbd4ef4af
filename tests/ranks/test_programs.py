"""GoogleTest under mpirun: collectives, groups, data parallelism, sharding with MPI and NCCL."""

import subprocess

import pytest

from conftest import BUILD, needs_gpu_per_rank


def run_tests(program, ranks, backend, folder):
    needs_gpu_per_rank(backend, ranks)
    launch = ["mpirun", "--oversubscribe", "-np", str(ranks)]
    done = subprocess.run(
        [*launch, str(BUILD / program), backend, "--gtest_brief=1"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_collectives_give_the_values_of_their_formulas(tmp_path, ranks, backend):
    run_tests("communicator_test", ranks, backend, tmp_path)


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
@pytest.mark.parametrize("ranks", [4, 6])
def test_groups_of_a_grid_work_side_by_side(tmp_path, ranks, backend):
    run_tests("process_groups_test", ranks, backend, tmp_path)


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_data_parallel_training_equals_a_single_process(tmp_path, ranks, backend):
    run_tests("gradient_sync_test", ranks, backend, tmp_path)


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_sharded_optimizers_equal_unsharded_ones(tmp_path, ranks, backend):
    run_tests("optimizer_sharding_test", ranks, backend, tmp_path)


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_parameters_that_come_and_go_train_as_resident_ones(tmp_path, ranks, backend):
    run_tests("parameter_access_test", ranks, backend, tmp_path)


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
@pytest.mark.parametrize("ranks", [1, 2, pytest.param(5, marks=pytest.mark.long)])
def test_a_step_is_phases_that_launch_and_allocate_nothing_new(tmp_path, ranks, backend):
    run_tests("step_phases_test", ranks, backend, tmp_path)
