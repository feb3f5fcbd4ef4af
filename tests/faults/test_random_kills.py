"""Sweeps killed at random moments: no case is lost, unreadable or recorded twice."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

from conftest import PATIENCE, command, seeds, start
from processes import rank_of, ranks_of
from result_files import saved, step_times

CONTEXTS = list(range(8, 16))
MODEL = ("model", "--size", "tiny", "--vocab", 64, "--device", "cpu", "--threads", 1)
SWEEP = (*MODEL, "--warmup", 0, "--steps", 3)
ARGS = (*SWEEP, "--context", ",".join(map(str, CONTEXTS)), "--output", "out.h5", "--json")
VICTIMS = ("rank", "rank 0", "ranks", "mpirun", "all")


def kill(run: subprocess.Popen, victim: str, rng: random.Random) -> None:
    ranks = list(ranks_of(run).values())
    pids = {
        "rank": rng.sample(ranks, 1) if ranks else [],
        "rank 0": ranks[:1],
        "ranks": ranks,
        "mpirun": [run.pid],
        "all": [run.pid, *ranks],
    }[victim]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_all(run: subprocess.Popen) -> str:
    """Waits for the launch to end, kills processes that remain, and returns its output."""
    out, _ = run.communicate(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE  # ranks notice the end of mpirun with a delay
    while any(rank_of(pid) is not None for pid in members(run.pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in members(run.pid):
        os.kill(pid, signal.SIGKILL)
    return out


def members(session: int) -> list[int]:
    done = subprocess.run(
        ("pgrep", "--session", str(session)), capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in done.stdout.split()]


def reported(out: str) -> dict[int, float]:
    """The medians in the printed rows, by context. A row is saved before it is printed; the last
    line may be cut off."""
    rows = {}
    for line in out.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows[row["context"]] = row["step_median_s"]
    return rows


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def complaints(folder: Path, seed: int) -> list[str]:
    """Kills a sweep in this folder and resumes it; returns what was wrong."""
    rng = random.Random(seed)
    ranks = rng.choice((0, 1, 2, 3))
    victim = rng.choice(VICTIMS) if ranks else "mpirun"
    run = start(folder, ranks, *ARGS)
    wait_for(moment(folder, rng), run)
    time.sleep(rng.uniform(0, 0.03))
    kill(run, victim, rng)
    told = reported(end_all(run))
    found = []

    def hold(right: bool, what: str) -> None:
        if not right:
            found.append(f"seed {seed}, {ranks} ranks, {victim} killed: {what}")

    kept = saved(folder)
    hold(told.items() <= kept.items(), f"printed {told}, but saved {kept}")
    if kept and not (folder / "out.h5").exists() and rng.random() < 0.5:
        merged = subprocess.run(command(0, "merge", "out.h5"), cwd=folder, check=False)
        hold(merged.returncode == 0, "merge failed")
        hold(step_times(folder / "out.h5") == kept, "merge lost a case")
    going_on = subprocess.run(
        command(ranks, *ARGS, "--resume"), cwd=folder, capture_output=True, text=True, check=False
    )
    hold(going_on.returncode == 0, f"--resume: {going_on.stderr}")
    hold(files(folder) == ["out.h5"], f"left behind: {files(folder)}")
    if found:
        return found
    times = step_times(folder / "out.h5")
    with h5py.File(folder / "out.h5") as file:
        hold(bool(file.attrs["complete"]), "not complete")
        hold(
            len(file["cases"]) == len(file["summary/case"]) == len(CONTEXTS),
            "cases lost or recorded twice",
        )
    hold(sorted(times) == CONTEXTS, f"contexts in the file: {sorted(times)}")
    hold(kept.items() <= times.items(), "a finished case was measured again")
    return found


def moment(folder: Path, rng: random.Random) -> Callable[[], bool]:
    """The condition to wait for before the kill: at once (during startup), when the folder of cases
    exists, or when a random number of cases is finished (all: during the merge)."""
    cases = folder / "out.h5.cases"
    count = rng.randint(-1, len(CONTEXTS))
    if count < 0:
        return lambda: True
    if count == 0:
        return cases.exists
    return lambda: len(list(cases.glob("*.h5"))) >= count or (folder / "out.h5").exists()


def wait_for(what: Callable[[], bool], run: subprocess.Popen) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what() and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)


@pytest.mark.parametrize("seed", seeds(5, 2, 8))  # 5 and 6 kill after finished cases
def test_a_killed_sweep_loses_nothing(tmp_path, seed):
    assert complaints(tmp_path, seed) == []
