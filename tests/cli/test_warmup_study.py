"""`model --preset warmup`: every step of a process since its first, a launch for each size."""

import os
import subprocess

import h5py
import pytest

from conftest import PATIENCE, ROOT
from result_files import rows

SMALL = ("model", "--preset", "warmup", "--device", "cpu", "--threads", 1, "--batch-size", 1)
SMALL = (*SMALL, "--quiet", "--output", "out.h5", "--size", "tiny", "--context")


def test_every_step_from_the_first_of_the_process_is_recorded(paceline, tmp_path):
    done = paceline(*SMALL, 8, "--warmup", 2, "--steps", 3)
    assert done.code == 0, done.err
    (row,) = rows(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as f:
        (case,) = f["cases"].values()
        warmup, measured = (case[f"{group}/step"][0] for group in ("samples_warmup", "samples"))
        assert len(f["runs"]) == 1
    assert len(warmup) >= 2 + 2  # the rehearsal has at least two steps
    assert len(measured) == 3
    assert row["rehearsal_s"] == warmup[0]
    assert row["device_start_s"] > 0
    assert 0 < row["library_s"] < row["setup_s"]


def test_the_job_starts_a_process_for_every_size(tmp_path):
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "$$ $*" >> "$LOG"\n')
    program.chmod(0o755)
    variables = {
        "PACELINE": str(program), "PACELINE_JOBS": str(ROOT / "jobs"), "PACELINE_JOB": "warmup",
        "PACELINE_RESULTS": str(tmp_path / "results"), "LOG": str(tmp_path / "log"),
    }  # fmt: skip
    inherited = {name: os.environ[name] for name in os.environ if not name.startswith("SLURM_")}
    subprocess.run(["bash", ROOT / "jobs/warmup.sbatch"], env=inherited | variables, check=True,
                   timeout=PATIENCE, cwd=tmp_path)  # fmt: skip
    processes, lines = zip(
        *(line.split(" ", 1) for line in (tmp_path / "log").read_text().splitlines()), strict=True
    )
    assert len(set(processes)) == 5
    output = f"--output {tmp_path}/results/warmup.h5 --resume"
    assert list(lines) == [
        f"model --preset warmup --size {size} {output}"
        for size in ("small", "medium", "large", "xl", "2.7b")
    ]


@pytest.mark.parametrize("option", [("--warmup", "0,1"), ("--cold-start",)])
def test_warm_up_is_no_axis(paceline, option):
    done = paceline(*SMALL, 8, *option)
    assert done.code == 2
    assert option[0] in done.message
