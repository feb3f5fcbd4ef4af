"""jobs/nsys.sh and ncu.sh: the command lines that they start, and their refusals."""

import os
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

JOBS = ROOT / "jobs"


@pytest.fixture
def tools(tmp_path):
    """A folder with fake nsys and ncu programs that print their arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("nsys", "ncu"):
        tool = folder / name
        tool.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        tool.chmod(0o755)
    return folder


def run(script, *words, path, **variables):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    return subprocess.run(
        [JOBS / script, *words], env=plain | {"PATH": f"{path}:{os.environ['PATH']}"} | variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("rank", ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"])
def test_nsys_writes_a_report_per_rank_of_the_profiled_steps(tools, tmp_path, rank):
    reports = tmp_path / "some/reports"
    done = run(
        "nsys.sh", "paceline", "ddp", "--profile", "3", path=tools,
        PACELINE_REPORTS=str(reports), PACELINE_NSYS="--gpu-metrics-devices=all --stats=true",
        **{rank: "5"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    assert Path(words[0]).name == "nsys"
    assert f"--output={reports}/rank5" in words
    assert "--capture-range=cudaProfilerApi" in words
    options = ["--gpu-metrics-devices=all", "--stats=true"]
    assert words[-6:] == [*options, "paceline", "ddp", "--profile", "3"]
    assert reports.is_dir()


@pytest.mark.parametrize("name", ["-a b", "a[1]*"])
def test_reports_in_a_folder_with_an_odd_name(tools, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for script in ("nsys.sh", "ncu.sh"):
        done = run(script, "paceline", "model", "--profile=1", path=tools, PACELINE_REPORTS=name)
        assert (done.returncode, done.stderr) == (0, "")
        assert any(f"{name}/rank0" in word for word in done.stdout.splitlines())
    assert [path.name for path in tmp_path.iterdir() if path.name != "bin"] == [name]


def test_ncu_accepts_one_rank_only(tools, tmp_path):
    command = ("paceline", "model", "--profile=1")
    done = run("ncu.sh", *command, path=tools, PACELINE_REPORTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    assert words[1:3] == ["--profile-from-start", "off"]
    assert words[-5:] == ["--export", f"{tmp_path}/rank0", *command]
    for ranks in ("OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
        done = run("ncu.sh", *command, path=tools, **{ranks: "2"})
        assert done.returncode == 2
        assert "which collectives of several ranks cannot do" in done.stderr


@pytest.mark.parametrize("script", ["nsys.sh", "ncu.sh"])
def test_refusal_without_profiled_steps_or_without_the_tool(tools, script):
    done = run(script, "paceline", "model", path=tools)
    assert (done.returncode, done.stdout) == (2, "")
    assert "give paceline --profile STEPS" in done.stderr
    (tools / script.removesuffix(".sh")).unlink()
    done = run(script, "paceline", "model", "--profile", "1", path=tools)
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no" in done.stderr
