"""Signals and kills: every finished case survives, every rank ends, and the code says how."""

import os
import signal
import subprocess
import time

import h5py
import pytest

from conftest import command
from result_files import summary

SWEEP = ("model", "--size", "tiny", "--context", "8,9,10,11,12,13,14,15,16,17", "--warmup", 1)
ARGS = (*SWEEP, "--device", "cpu", "--threads", 1, "--output", "out.h5", "--steps")
STEPS = 100


def start(folder, ranks, steps=STEPS):
    return subprocess.Popen(
        command(ranks, *ARGS, steps),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def step_times(path):
    columns = summary(path)
    return dict(zip(columns["context"], columns["step_median_s"], strict=True))


def wait_for_cases(folder, count):
    deadline = time.monotonic() + 60
    while len(list((folder / "out.h5.cases").glob("*.h5"))) < count:
        assert time.monotonic() < deadline, "no case was finished"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("ranks", "which"), [(0, signal.SIGTERM), (0, signal.SIGINT), (2, signal.SIGUSR1)]
)
def test_a_stop_signal_keeps_finished_cases_and_resume_goes_on(paceline, tmp_path, ranks, which):
    run = start(tmp_path, ranks)
    wait_for_cases(tmp_path, 2)
    run.send_signal(which)
    _, err = run.communicate(timeout=30)
    assert run.returncode == 6, err
    (line,) = [text for text in err.splitlines() if text.startswith("paceline: ")]
    assert "out.h5" in line
    assert "--resume" in line
    with h5py.File(tmp_path / "out.h5") as f:
        finished = list(f["cases"])
        assert not f.attrs["complete"]
    assert 2 <= len(finished) < 10
    assert not (tmp_path / "out.h5.cases").exists()

    kept = step_times(tmp_path / "out.h5")
    assert paceline(*ARGS, STEPS, "--resume", "--quiet", ranks=ranks).code == 0
    times = step_times(tmp_path / "out.h5")
    assert sorted(times) == list(range(8, 18))
    assert all(times[context] == kept[context] for context in kept)
    with h5py.File(tmp_path / "out.h5") as f:
        assert f.attrs["complete"]


@pytest.mark.parametrize("then", ["merge", "resume"])
def test_kill_9_loses_no_finished_case(paceline, tmp_path, then):
    run = start(tmp_path, 0)
    wait_for_cases(tmp_path, 3)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate(timeout=30)
    finished = {}
    for path in (tmp_path / "out.h5.cases").glob("*.h5"):
        finished |= step_times(path)
    assert len(finished) >= 3
    if then == "merge":
        assert paceline("merge", "out.h5").code == 0
        assert step_times(tmp_path / "out.h5") == finished
    else:
        assert paceline(*ARGS, STEPS, "--resume", "--quiet").code == 0
        assert finished.items() <= step_times(tmp_path / "out.h5").items()
    with h5py.File(tmp_path / "out.h5") as f:
        assert f.attrs["complete"] == (then == "resume")


def test_a_killed_rank_ends_the_launch_at_once(tmp_path):
    run = start(tmp_path, 2)
    wait_for_cases(tmp_path, 1)
    ranks = subprocess.run(
        ["pgrep", "-P", str(run.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(ranks[-1]), signal.SIGKILL)
    run.communicate(timeout=20)
    assert run.returncode not in (0, None)
    with h5py.File(next((tmp_path / "out.h5.cases").glob("*.h5"))) as f:
        assert len(f["cases"]) == 1


def test_a_second_run_on_the_same_output_is_refused(paceline, tmp_path):
    run = start(tmp_path, 0, steps=5000)  # beyond the ten seconds that the second one waits
    wait_for_cases(tmp_path, 1)
    second = paceline(*ARGS, STEPS, "--resume")
    assert second.code == 2
    assert "out.h5" in second.message
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate(timeout=30)
