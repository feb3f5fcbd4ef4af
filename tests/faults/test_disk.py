"""Disks that are full, read-only or gone: code 6, nothing half-written, and no case is lost. What
others change while a sweep runs is in unit/resume_test.cpp."""

import json
import re
import resource
import shutil
import subprocess
from pathlib import Path

import h5py
import pytest

from conftest import command, ended, run_line, wait_for_cases
from result_files import step_times, summary

CONTEXTS = list(range(8, 12))
CPU = ("--device", "cpu", "--threads", 1)
ONCE = ("model", "--size", "tiny", "--vocab", 64, *CPU, "--warmup", 1)
SWEEP = (*ONCE, "--context", ",".join(map(str, CONTEXTS)), "--steps", 3, "--quiet")
SLOW = (*SWEEP, "--min-time", 1.5)


def mount(*words):
    line = ("mount", *map(str, words))
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path):
    """disk(options): a file system in memory, at the folder "disk"; again: changes its options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def make(options):
        mount("-t", "tmpfs", "-o", options, "none", folder)
        return folder

    yield make
    while subprocess.run(("umount", folder), capture_output=True, check=False).returncode == 0:
        pass


def case_elsewhere(line, folder):
    """The file named in the message, to be moved to the folder of cases."""
    path, to = re.search(r"the case is in (\S+): make room, move it to (\S+)/ and", line).groups()
    assert to == f"{folder}/out.h5.cases"
    return Path(path)


def move_back(path, folder):
    cases = folder / "out.h5.cases"
    cases.mkdir(exist_ok=True)
    shutil.move(path, cases)
    path.parent.rmdir()


def whole_cases(folder):
    times = {}
    for path in (folder / "out.h5.cases").iterdir():
        if path.name != ".lock":
            times |= step_times(path)
    return times


@pytest.mark.parametrize("ranks", [0, 2])
def test_the_case_that_a_full_disk_does_not_take_is_kept_elsewhere(paceline, disk, ranks):
    folder = disk("size=300k")
    done = paceline(*SWEEP, "--output", "disk/out.h5", ranks=ranks)
    assert done.code == 6, done.err
    assert "No space left on device" in done.message
    elsewhere = case_elsewhere(done.message, "disk")
    finished = whole_cases(folder)
    assert 1 <= len(finished) < len(CONTEXTS)
    kept = finished | step_times(elsewhere)
    assert len(kept) == len(finished) + 1

    disk("remount,size=20m")
    move_back(elsewhere, folder)
    assert paceline(*SWEEP, "--output", "disk/out.h5", "--resume", ranks=ranks).code == 0
    times = step_times(folder / "out.h5")
    assert list(times) == CONTEXTS
    assert kept.items() <= times.items()
    assert [path.name for path in folder.iterdir()] == ["out.h5"]


def test_a_disk_that_becomes_read_only(paceline, tmp_path, disk, launch):
    folder = disk("size=20m")
    run = launch(0, *SLOW, "--output", "disk/out.h5")
    (tmp_path / "out.h5.cases").symlink_to(folder / "out.h5.cases")
    wait_for_cases(tmp_path, 1)
    mount("--bind", folder, folder)
    mount("-o", "remount,ro,bind", folder)
    done = ended(run)
    assert done.code == 6, done.err
    assert "Read-only file system" in done.message
    elsewhere = case_elsewhere(done.message, "disk")
    kept = whole_cases(folder) | step_times(elsewhere)
    mount("-o", "remount,rw,bind", folder)
    move_back(elsewhere, folder)
    assert paceline("merge", "disk/out.h5").code == 0
    assert step_times(folder / "out.h5") == kept


def test_a_case_that_no_place_takes_is_printed(tmp_path, launch):
    run = launch(0, *SLOW, "--output", "out.h5")
    wait_for_cases(tmp_path, 1)
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (20_000, 20_000))
    done = ended(run)
    assert done.code == 6, done.err
    _, _, left = done.message.partition("that is left of the case: ")
    row = json.loads(left)
    assert row["status"] == "ok"
    assert row["context"] in CONTEXTS
    assert row["context"] not in whole_cases(tmp_path)


@pytest.mark.parametrize("arguments", [("list",), (*ONCE, "--steps", 1, "--output", "out.h5")])
def test_standard_output_that_cannot_be_written(tmp_path, arguments):
    done = run_line(tmp_path, ["sh", "-c", 'exec "$@" >/dev/full', "sh", *command(0, *arguments)])
    assert done.code == 6
    assert "standard output" in done.message
    if "--output" in arguments:
        assert summary(tmp_path / "out.h5")["status"] == ["ok"]


def test_a_table_that_nobody_reads_does_not_end_the_run(tmp_path):
    words = " ".join(map(str, command(0, *ONCE, "--context", "8,9,10", "--output", "out.h5")))
    assert run_line(tmp_path, ["sh", "-c", f"{words} --json 2>/dev/full | true"]).code == 0
    assert sorted(step_times(tmp_path / "out.h5")) == [8, 9, 10]


@pytest.mark.parametrize("there", [True, False])
def test_symbolic_links_are_followed(paceline, tmp_path, there):
    (tmp_path / "large").mkdir()
    for name in ("out.h5", "dump.h5"):
        (tmp_path / name).symlink_to(Path("large") / name)
        if there:
            (tmp_path / "large" / name).write_bytes(b"")
    outputs = ("--output", "out.h5", "--dump", "dump.h5", *(("--force",) if there else ()))
    done = paceline(*ONCE, "--steps", 1, "--context", 8, *outputs, "--quiet")
    assert done.code == 0, done.err
    assert sorted(path.name for path in (tmp_path / "large").iterdir()) == ["dump.h5", "out.h5"]
    for name in ("out.h5", "dump.h5"):
        assert (tmp_path / name).is_symlink()
    with h5py.File(tmp_path / "dump.h5") as file:
        assert "logits" in file


@pytest.mark.parametrize("dump", ["nowhere/dump.h5", "/proc/dump.h5", "."])
def test_a_dump_that_cannot_be_written_is_refused_before_the_run(paceline, tmp_path, dump):
    done = paceline(*ONCE, "--steps", 1, "--output", "out.h5", "--dump", dump)
    assert done.code == 2
    assert "--dump" in done.message
    assert list(tmp_path.iterdir()) == []


def test_the_dump_that_a_full_disk_does_not_take_is_kept_elsewhere(paceline, disk):
    folder = disk("size=40k")
    done = paceline(*ONCE, "--steps", 1, "--context", 8, "--dump", "disk/dump.h5", "--quiet")
    assert done.code == 6, done.err
    says = r"--dump: cannot write disk/dump.h5: No space left on device; it is in (\S+); "
    elsewhere = Path(re.search(says, done.message.splitlines()[0])[1])
    assert list(folder.iterdir()) == []
    with h5py.File(elsewhere) as file:
        assert "logits" in file
    shutil.rmtree(elsewhere.parent)
