"""Fixtures: a real Slurm cluster on this machine, and jobs in it."""

import contextlib
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
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(slurm_cluster.running())
        except slurm_cluster.DaemonsDoNotRunError as error:
            pytest.skip(f"Slurm's daemons do not run here: {error}")
        yield made


@pytest.fixture
def jobs(cluster: slurm_cluster.Cluster, tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(cluster, tmp_path)
    yield made
    cluster.run("scancel", "--user", "root")
    shutil.rmtree(made.results, ignore_errors=True)
