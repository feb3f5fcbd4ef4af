"""bench/reference.sh and bench/scaling.sh: the runs that they start, and how they resume."""

import os
import shlex
import subprocess
from itertools import groupby, product
from pathlib import Path

import data_parallel_ratios
import pytest
import train_step_ratios

from conftest import PROGRAM, ROOT

SCRIPTS = ("reference.sh", "scaling.sh")
GPU = """#!/bin/sh
case $1 in
  -L) for i in $(seq "$GPUS"); do echo "GPU $i: NVIDIA H200"; done ;;
  *) echo "NVIDIA H200" ;;
esac
"""
# In place of paceline: appends its arguments to $NOTES. Exits with 6 (stopped by a signal) if they
# contain $STOPS, and fails with 3 if they contain $BREAKS. If they contain $INTERRUPTS, Ctrl-C was
# typed: the script gets the signal as well, and mpirun ends with 1.
STAND_IN = """#!/bin/sh
echo "$@" >>"$NOTES"
case $* in
  *"$STOPS"*) exit 6 ;;
  *"$INTERRUPTS"*) kill -INT $PPID && exit 1 ;;
  *"$BREAKS"*) echo "paceline: no" && exit 3 ;;
esac
"""


@pytest.fixture
def bench(tmp_path):
    def write(name: str, text: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    write("nvidia-smi", GPU)
    write("mpirun", '#!/bin/sh\nshift 3\nexec "$@"\n')
    program = write("paceline", STAND_IN)
    # In place of Python: has PyTorch unless $TORCH says no.
    has_torch = '[ "$1" != -c ] || exit "$TORCH"'
    python = write("python-of-peers", STAND_IN.replace("\n", f"\n{has_torch}\n", 1))

    def call(script: str, *arguments: str, gpus: int = 2, **variables: str):
        notes = tmp_path / "notes"
        notes.unlink(missing_ok=True)
        environment = os.environ | {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PACELINE": str(program),
            "PYTHON": str(python),
            "TORCH": "0",
            "PACELINE_RESULTS": str(tmp_path / "results"),
            "NOTES": str(notes),
            "GPUS": str(gpus),
            "STOPS": "no run",
            "INTERRUPTS": "no run",
            "BREAKS": "no run",
        }
        done = subprocess.run(
            [ROOT / "bench" / script, *arguments], env=environment | variables,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done, notes.read_text().splitlines() if notes.exists() else []

    return call


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_listed_command_is_accepted(bench, script):
    done, ran = bench(script, "--list")
    assert done.returncode == 0, done.stderr
    assert not ran
    # Several launches in a row may measure cases of one file.
    names = [name for name, _ in groupby(done.stdout.splitlines(), lambda line: line.split(":")[0])]
    assert len(set(names)) == len(names) > 3
    for line in done.stdout.splitlines():
        if "bench/peers" in line:
            continue
        options = shlex.split(line.split("bin/paceline ")[1])
        printed = subprocess.run(
            [PROGRAM, *options, "--print-config"], capture_output=True, text=True, check=False
        )
        assert printed.returncode == 0, line + printed.stderr


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("how", ["STOPS", "INTERRUPTS"])
def test_a_stopped_run_resumes(bench, script, how):
    done, ran = bench(script, **{how: "ddp"})
    assert done.returncode == 6
    assert "start this script again to resume" in done.stdout
    assert "ddp" in ran[-1]
    done, again = bench(script)
    assert done.returncode == 0, done.stderr
    assert again[: len(ran)] == ran
    assert len(again) > len(ran)
    for line in again:
        assert line.endswith("-h200.h5 --resume") or line.startswith("bench/peers/")


def test_runs_by_name_and_runs_with_too_few_gpus(bench):
    done, ran = bench("reference.sh", "model-sizes", "zero-course", gpus=1)
    assert done.returncode == 0, done.stderr
    assert len(ran) == 1
    assert ran[0].startswith("model --preset sizes --output ")
    assert "zero-course: skipped: needs 2 GPUs, this host has 1" in done.stdout
    done, ran = bench("reference.sh", "model-size")
    assert (done.returncode, ran) == (2, [])
    assert "there is no run 'model-size': model-sizes" in done.stderr


def test_a_failed_run_is_reported_and_the_others_run(bench):
    done, ran = bench("reference.sh", "model-sizes", "zero-course", BREAKS="model-sizes")
    assert done.returncode == 1
    assert "model-sizes: ended with 3: paceline: no" in done.stderr
    assert len(ran) == 2


def test_scaling_measures_every_number_of_gpus_that_the_host_has(bench):
    for gpus, counts in ((1, [1]), (4, [1, 2, 4]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 6, 8])):
        done, ran = bench("scaling.sh", gpus=gpus)
        assert done.returncode == 0, done.stderr
        for run, measured in (("weak-ddp", {1, 2, 4, 8}), ("collectives", {2, 4, 6, 8})):
            for count in (1, 2, 4, 6, 8):
                found = any(f"/{run}-{count}-h200.h5" in line for line in ran)
                assert found == (count in counts and count in measured), (run, count)


def test_every_listed_command_of_the_peers_is_accepted(bench, monkeypatch):
    """Up to the point where it would measure."""
    done, _ = bench("reference.sh", "--list")
    lines = [line for line in done.stdout.splitlines() if "bench/peers/" in line]
    assert {line.split(":")[0] for line in lines} == {
        "peers", "peers-variants", "peers-autotune", "peers-data-parallel",
    }  # fmt: skip
    cases = []
    for script in (data_parallel_ratios, train_step_ratios):
        monkeypatch.setattr(script, "sweep", lambda options, found, measure: cases.extend(found))
    for line in lines:
        _, script, *options = shlex.split(line.split(": ")[1])
        module = {"train_step_ratios.py": train_step_ratios}.get(
            Path(script).name, data_parallel_ratios
        )
        assert (ROOT / script).exists()
        module.main([*options, "--output", "x.h5"])
    steps = {(c["size"], c["context"], c["precision"]) for c in cases if "ranks" not in c}
    sizes, contexts = ("small", "medium", "large", "xl", "2.7b"), (128, 256, 512, 1024)
    assert steps >= set(product(sizes, contexts, ("bf16", "fp32")))


def test_peers_are_measured_within_the_minutes_of_the_call(bench):
    done, ran = bench("reference.sh", "--minutes=7", "peers", gpus=1)
    assert done.returncode == 0, done.stderr
    assert len(ran) == 2
    assert bench("reference.sh", "--minutes", "7", "peers", gpus=1)[1] == ran
    for line in ran:
        assert line.startswith("bench/peers/train_step_ratios.py --size small ")
        assert line.endswith("--minutes 7")
        assert "/results/peers-h200.h5 --paceline " in line
    done, ran = bench("reference.sh", "peers", "peers-data-parallel", gpus=1, TORCH="1")
    assert (done.returncode, ran) == (0, [])
    assert "peers: skipped:" in done.stdout and "has no PyTorch" in done.stdout


def test_peers_that_ran_out_of_minutes_resume(bench):
    done, ran = bench("reference.sh", "peers", STOPS="bf16")
    assert done.returncode == 6
    assert "start this script again to resume" in done.stdout
    assert len(ran) == 1
