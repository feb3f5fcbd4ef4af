"""What others do to a sweep's files while it runs; unit/changed_files_test.cpp has the rest."""

import os
import signal

import h5py

from conftest import PATIENCE, Run, wait_for_cases
from result_files import step_times

CONTEXTS = [8, 9, 10, 11]
SWEEP = (
    "model", "--size", "tiny", "--vocab", 64, "--device", "cpu", "--threads", 1, "--warmup", 0,
    "--context", ",".join(map(str, CONTEXTS)), "--quiet", "--output", "out.h5",
)  # fmt: skip
SLOW = (*SWEEP, "--min-time", 1.5, "--steps", 2)


def test_a_case_file_that_is_removed(paceline, tmp_path, launch):
    run = launch(0, *SLOW)
    wait_for_cases(tmp_path, 1)
    os.kill(run.pid, signal.SIGSTOP)
    (removed,) = (tmp_path / "out.h5.cases").glob("tiny-8-*.h5")
    removed.unlink()
    os.kill(run.pid, signal.SIGCONT)
    out, err = run.communicate(timeout=PATIENCE)
    done = Run(run.returncode, out, err)
    assert done.code == 6
    assert done.message == (
        f"paceline: {removed.name} of out.h5.cases was removed or changed while the sweep ran; "
        "--resume measures it again"
    )
    kept = step_times(tmp_path / "out.h5")
    assert sorted(kept) == CONTEXTS[1:]
    with h5py.File(tmp_path / "out.h5") as file:
        assert not file.attrs["complete"]
    assert not (tmp_path / "out.h5.cases").exists()
    assert paceline(*SLOW, "--resume").code == 0
    times = step_times(tmp_path / "out.h5")
    assert sorted(times) == CONTEXTS
    assert kept.items() <= times.items()
