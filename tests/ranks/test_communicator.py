"""Collectives in host memory: build/communicator_test under mpirun."""

import subprocess

import pytest

from conftest import ROOT


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_collectives_give_the_values_of_their_formulas(tmp_path, ranks):
    program = ROOT / "build" / "communicator_test"
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "-np", str(ranks), str(program), "--gtest_brief=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
