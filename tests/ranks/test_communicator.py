"""Collectives through MPI and through NCCL: build/communicator_test under mpirun."""

import subprocess

import pytest

from conftest import ROOT, gpu_count


@pytest.mark.parametrize("backend", ["mpi", "nccl"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_collectives_give_the_values_of_their_formulas(tmp_path, ranks, backend):
    if backend == "nccl" and gpu_count() < ranks:
        pytest.skip(f"{gpu_count()} GPUs here")
    program = ROOT / "build" / "communicator_test"
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "-np", str(ranks), str(program), backend, "--gtest_brief=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
