"""What others do to a sweep's files while it runs: code 6, one line, and nothing is mixed."""

import contextlib
import os
import shutil
import signal
from pathlib import Path

import h5py

from conftest import ended, wait_for_cases
from result_files import step_times

CONTEXTS = [8, 9, 10, 11]
SWEEP = (
    "model", "--size", "tiny", "--vocab", 64, "--device", "cpu", "--threads", 1, "--warmup", 0,
    "--context", ",".join(map(str, CONTEXTS)), "--quiet", "--output", "out.h5",
)  # fmt: skip
SLOW = (*SWEEP, "--min-time", 1.5, "--steps", 2)


@contextlib.contextmanager
def suspended(run):
    os.kill(run.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(run.pid, signal.SIGCONT)


def test_a_case_file_that_is_removed(paceline, tmp_path, launch):
    run = launch(0, *SLOW)
    wait_for_cases(tmp_path, 1)
    with suspended(run):
        (removed,) = (tmp_path / "out.h5.cases").glob("tiny-8-*.h5")
        removed.unlink()
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


def test_a_folder_that_is_removed_and_a_second_launch(paceline, tmp_path, launch, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    first = launch(0, *SLOW)
    wait_for_cases(tmp_path, 1)
    with suspended(first):
        shutil.rmtree(tmp_path / "out.h5.cases")
        second = launch(0, *SLOW, "--seed", 2)
        wait_for_cases(tmp_path, 1)
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


def test_an_output_that_somebody_else_makes_is_kept(paceline, tmp_path, launch):
    run = launch(0, *SLOW)
    wait_for_cases(tmp_path, 1)
    with suspended(run):
        Path(tmp_path / "out.h5").write_text("theirs")
    done = ended(run)
    assert done.code == 6
    assert "another program has written it meanwhile" in done.message
    assert (tmp_path / "out.h5").read_text() == "theirs"
    (tmp_path / "out.h5").unlink()
    assert paceline(*SLOW, "--resume").code == 0
    assert sorted(step_times(tmp_path / "out.h5")) == CONTEXTS
