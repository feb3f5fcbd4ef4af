"""Files that claim data that they do not have, or that would control the terminal. compare in C++
reads them; the next version of it is in the analysis."""

import shutil
import subprocess

import h5py
import pytest

from conftest import command

TINY = ("model", "--size", "tiny", "--context", 8, "--device", "cpu", "--warmup", 0, "--steps", 1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "whole.h5"
    line = command(0, *TINY, "--quiet", "--output", path)
    subprocess.run(line, capture_output=True, timeout=60, check=True)
    return path


@pytest.fixture
def bad(whole, tmp_path):
    return shutil.copy(whole, tmp_path / "bad.h5")


@pytest.mark.xfail(strict=True, reason="C++ reads a contiguous dataset that was never written")
def test_a_dataset_that_was_never_written(paceline, whole, bad):
    """The file is as large as a well compressed one of that size."""
    with h5py.File(bad, "r+") as file:
        samples = next(iter(file["cases"].values()))["samples"]
        del samples["step"]
        samples.create_dataset("step", (1, 1 << 21), "f8")
    with bad.open("ab") as file:
        file.truncate(bad.stat().st_size + (1 << 21))
    done = paceline("compare", whole, bad)
    assert (done.code, "claims more data than" in done.err) == (2, True)


@pytest.mark.xfail(strict=True, reason="C++ prints texts of files as they are")
def test_control_characters_of_a_file_do_not_reach_the_terminal(paceline, bad):
    with h5py.File(bad, "r+") as file:
        next(iter(file["cases"].values())).attrs["mode"] = "a\x1b[2Jb\nINJECTED"
        file["summary/mode"][...] = "a\x1b[2Jb\nINJECTED"
    done = paceline("compare", bad, bad)
    assert done.code == 0
    assert r"a\x1b[2Jb\nINJECTED" in done.out
