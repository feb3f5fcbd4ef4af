"""jobs/ without Slurm: workstation.sh, finish.sh, status.sh, and jobs of an installation."""

import os
import re
import signal
import subprocess
import tarfile
from pathlib import Path

import h5py
import pytest

import synthetic
from conftest import PROGRAM, ROOT, wait_until

JOBS = ROOT / "jobs"


def run(*command: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess:
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=cwd, env=os.environ | variables, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip


def workstation(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    variables = {"CUDA_VISIBLE_DEVICES": "", "PACELINE": str(PROGRAM)} | variables
    return run(JOBS / "workstation.sh", *arguments, cwd=folder, **variables)


# One sweep on one rank, one on all, an array of models, a series of ranks, one for several nodes.
KINDS = ("attention", "collectives", "sizes", "ddp", "scaling", "scaling_nodes")


@pytest.mark.long
def test_every_kind_of_sweep_on_a_workstation(tmp_path: Path):
    """The Slurm tests run each of the sweeps."""
    done = workstation(tmp_path, "--tiny", *KINDS)
    assert done.returncode == 0, done.stdout + done.stderr
    results = tmp_path / "results/tiny"
    files = {path.stem for path in results.glob("*.h5")}
    arrays = {f"sizes-{size}" for size in ("small", "medium", "large", "xl", "2.7b")}
    assert files == {"attention", "collectives", "ddp", "scaling-1", "scaling-2"} | arrays
    for path in results.glob("*.h5"):
        with h5py.File(path) as file:
            assert file.attrs["complete"], path
    assert "scaling_nodes: skipped: needs 4 nodes" in done.stdout
    assert "step" in (results / "sizes.md").read_text()
    assert (results / "verdict.txt").read_text().endswith("\n12 missing\n")
    with tarfile.open(tmp_path / "results/tiny.tar.gz") as archive:
        assert {"tiny/ddp.h5", "tiny/ddp.log"} <= set(archive.getnames())

    log = (results / "ddp.log").read_text()
    created = created_in(results / "ddp.h5")
    again = workstation(tmp_path, "--tiny", "ddp")
    assert again.returncode == 0
    assert created_in(results / "ddp.h5") == created, "finished cases are kept"
    assert "[1/8]" not in (results / "ddp.log").read_text()[len(log) :]


def test_without_names_it_runs_every_sweep():
    script = (JOBS / "workstation.sh").read_text()
    (listed,) = re.findall(r"selected=\(([a-z_\s]+)\)", script)
    assert sorted(listed.split()) == sorted({p.stem for p in JOBS.glob("*.sbatch")} - {"analysis"})


def created_in(path: Path) -> dict[str, str]:
    with h5py.File(path) as file:
        return {name: case.attrs["created"] for name, case in file["cases"].items()}


def test_jobs_that_need_more_gpus_are_skipped(tmp_path: Path):
    no_gpu = tmp_path / "bin/nvidia-smi"
    no_gpu.parent.mkdir()
    no_gpu.write_text("#!/bin/sh\nexit 9\n")
    no_gpu.chmod(0o755)
    done = workstation(tmp_path, "sizes", "ddp", PATH=f"{no_gpu.parent}:{os.environ['PATH']}")
    assert "sizes: skipped: needs 1 GPUs, found none" in done.stdout
    assert "ddp: skipped: needs 2 GPUs, found none" in done.stdout
    assert done.returncode == 1  # no result files to make tables of


def test_a_failed_sweep_is_reported_and_the_others_run(tmp_path: Path):
    broken = tmp_path / "broken"
    broken.write_text(
        f'#!/bin/sh\n[ "$1" != attention ] || {{ echo "paceline: no" >&2; exit 4; }}\n'
        f'exec {PROGRAM} "$@"\n'
    )
    broken.chmod(0o755)
    done = workstation(tmp_path, "--tiny", "attention", "memory", PACELINE=str(broken))
    assert done.returncode == 1
    assert "attention: ended with 4: paceline: no" in done.stderr
    status = run(JOBS / "status.sh", "results/tiny", cwd=tmp_path)
    assert status.returncode == 1
    rows = {line.split()[0]: line for line in status.stdout.splitlines()}
    assert "failed (4)" in rows["attention"]
    assert re.search(r"memory +finished +6/6 ", rows["memory"])


COPYING = """#!/bin/sh
while [ "$1" != --output ]; do shift; done
exec cp "$FILE" "$2"
"""


def test_folders_with_odd_names(tmp_path: Path):
    name = "-a b[1]*: '$(id)\""
    program = tmp_path / "program"
    program.write_text(COPYING)
    program.chmod(0o755)
    variables = {
        "PACELINE_RESULTS": name,
        "PACELINE": str(program),
        "FILE": str(ROOT / "results/reference/attention-leaderboard-h200.h5"),
    }
    done = workstation(tmp_path, "--tiny", "attention", **variables)
    assert (done.returncode, done.stderr) == (0, "")
    results = tmp_path / name
    assert {"attention.h5", "attention.md", "verdict.txt"} <= {p.name for p in results.iterdir()}
    with tarfile.open(f"{results}.tar.gz") as archive:
        assert f"{results.name}/attention.h5" in archive.getnames()
    for arguments in ([], [name]):
        status = run(JOBS / "status.sh", *arguments, cwd=tmp_path, **variables)
        assert re.search(r"^attention +finished ", status.stdout, re.MULTILINE)


def test_ctrl_c_keeps_finished_cases(tmp_path: Path):
    """Sends SIGINT to the whole process group, as a terminal does."""
    site = {"PACELINE": str(PROGRAM), "CUDA_VISIBLE_DEVICES": "", "PACELINE_OPTIONS": "--verify=50"}
    log = tmp_path / "results/tiny/ddp.log"
    with subprocess.Popen(
        [JOBS / "workstation.sh", "--tiny", "ddp", "zero"], cwd=tmp_path, env=os.environ | site,
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    ) as started:  # fmt: skip
        wait_until(lambda: (tmp_path / "results/tiny/ddp.h5.cases").exists())
        os.killpg(started.pid, signal.SIGINT)
        out, _ = started.communicate(timeout=60)
    assert started.returncode == 6, out
    assert "run it again to resume" in out
    assert "zero" not in out
    assert "stopped by a signal" in log.read_text()
    assert "ended=6" in (tmp_path / "results/tiny/ddp.state").read_text()


def test_an_unknown_job_is_refused(tmp_path: Path):
    done = workstation(tmp_path, "--tiny", "nonsense")
    assert done.returncode == 2
    assert "there is no" in done.stderr


def test_a_rate_below_the_reference_is_the_code_of_finish(tmp_path: Path):
    """jobs/reference.toml has 46,510 tokens/s."""
    factors = {"size": "small", "context": 512}
    one = synthetic.case(factors, {"step": [[0.1] * 6]}, summary={"tokens_per_s": 44000.0})
    folder = tmp_path / "results"
    folder.mkdir()
    synthetic.write_file(folder / "sizes-small.h5", [one], ranks=[("NVIDIA H200", "GPU-1", "a")])
    done = run(JOBS / "finish.sh", "results", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert (folder / "verdict.txt").read_text().endswith("\n11 missing, 1 regression\n")
    assert (tmp_path / "results.tar.gz").exists()


def test_a_missing_folder_is_refused(tmp_path: Path):
    done = run(JOBS / "status.sh", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no folder nowhere" in done.stderr


@pytest.mark.parametrize("how", ["install", pytest.param("dist", marks=pytest.mark.long)])
def test_jobs_run_from_an_installation(tmp_path: Path, how: str):
    """Runs a job from another folder; it must use the installed program."""
    if how == "install":
        done = run("make", "install", f"PREFIX={tmp_path}/paceline", cwd=ROOT)
    else:
        done = run("make", "dist", cwd=ROOT)
        run("tar", "-xzf", ROOT / "build/paceline.tar.gz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    jobs = tmp_path / "paceline/share/paceline/jobs"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    python = {"PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}
    done = run(jobs / "workstation.sh", "--tiny", "memory", cwd=elsewhere, **python)
    assert done.returncode == 0, done.stdout + done.stderr
    with h5py.File(elsewhere / "results/tiny/memory.h5") as file:
        assert str(tmp_path / "paceline") in file.attrs["command"]
    assert (elsewhere / "results/tiny/memory.md").exists()
