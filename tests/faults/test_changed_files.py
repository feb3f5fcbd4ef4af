"""What others do to a sweep's files while it runs; unit/changed_files_test.cpp has the rest."""

import os
import shutil
import signal

import h5py

from conftest import ended, wait_for_cases
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
    done = ended(run)
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


def test_a_folder_that_is_removed_and_a_second_launch(tmp_path, launch, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    first = launch(0, *SLOW)
    wait_for_cases(tmp_path, 1)
    os.kill(first.pid, signal.SIGSTOP)
    shutil.rmtree(tmp_path / "out.h5.cases")
    second = launch(0, *SLOW, "--seed", 2)
    wait_for_cases(tmp_path, 1)
    os.kill(first.pid, signal.SIGCONT)
    done = ended(first)
    assert done.code == 6
    assert "the folder of its cases was removed or replaced meanwhile" in done.message
    (case,) = elsewhere.rglob("*.h5")
    assert str(case) in done.message
    assert ended(second).code == 0
    with h5py.File(tmp_path / "out.h5") as file:
        assert file.attrs["complete"]
        assert [c.attrs["seed"] for c in file["cases"].values()] == [2] * len(CONTEXTS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "out.h5"]
