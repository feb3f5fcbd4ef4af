"""A real Slurm for the tests of this folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_cluster
from slurm_jobs import Jobs


@pytest.fixture(scope="session")
def cluster() -> Iterator[slurm_cluster.Cluster]:
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    with slurm_cluster.running() as made:
        yield made


@pytest.fixture
def jobs(cluster: slurm_cluster.Cluster, tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(cluster, tmp_path)
    yield made
    cluster.run("scancel", "--user", "root")
    shutil.rmtree(made.results, ignore_errors=True)
