"""Some seeds of tests/fuzz/files.py, and regression tests of what other seeds have found."""

import shutil
import sys

import h5py
import pytest

from conftest import ROOT, made, run_line
from result_files import split_into_case_files

PROGRAM = ROOT / "tests" / "fuzz" / "files.py"
ONCE = ("--device", "cpu", "--warmup", 0, "--steps", 1, "--quiet")
TINY = ("model", "--size", "tiny", "--vocab", 64, *ONCE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return made(tmp_path_factory.mktemp("whole") / "whole.h5", *TINY, "--context", 8)


def test_damaged_files_end_in_one_line(tmp_path):
    done = run_line(tmp_path, [sys.executable, PROGRAM, "--runs", "2"])
    assert done.code == 0, done.out + done.err


def test_merge_sets_a_damaged_case_aside(paceline, tmp_path):
    assert paceline(*TINY, "--context", "8,16", "--output", "out.h5").code == 0
    _, changed = split_into_case_files(tmp_path / "out.h5")
    with h5py.File(changed, "a") as file:
        file.attrs["more"] = 1
    done = paceline("merge", "out.h5")
    assert done.code == 0
    aside = f"out.h5.{changed.stem}.damaged"
    assert (
        f"warning: out.h5.cases/{changed.name} is damaged, or from an older version; "
        f"it is now {aside}" in done.err
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.h5", aside]
    with h5py.File(tmp_path / "out.h5") as file:
        assert len(file["cases"]) == 1


def test_merge_of_damaged_cases_alone_is_an_error(paceline, tmp_path):
    (tmp_path / "out.h5.cases").mkdir()
    (tmp_path / "out.h5.cases" / "a.h5").write_bytes(b"no HDF5 file")
    done = paceline("merge", "out.h5")
    assert done.code == 2
    assert "out.h5: none of its cases can be read" in done.message
    assert [path.name for path in tmp_path.iterdir()] == ["out.h5.a.damaged"]


@pytest.mark.parametrize("name", ["..", "a\nb", "\x1b[31m", "x" * 300, "-rf", ".hidden"])
def test_case_names_that_are_no_file_names_are_refused(paceline, tmp_path, whole, name):
    shutil.copy(whole, tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5", "a") as file:
        (old,) = file["cases"]
        file["cases"].move(old, name)
        file["summary/case"][:] = [name]
    done = paceline(*TINY, "--context", 8, "--output", "out.h5", "--resume")
    assert done.code == 2
    assert "out.h5" in done.message
    assert "is not the name of a case" in done.message
    assert [path.name for path in tmp_path.iterdir()] == ["out.h5"]


def test_damage_that_once_crashed_hdf5_when_it_copied(paceline, tmp_path, whole):
    """Reading the dataset fails with an error: its header has no dataspace."""
    out = tmp_path / "out.h5"
    shutil.copy(whole, out)
    with h5py.File(out) as file:
        (case,) = file["cases"].values()
        header = h5py.h5o.get_info(case["memory/active"].id).addr
    damaged = bytearray(out.read_bytes())
    assert damaged[header + 16] == 1  # the type of the first message
    damaged[header + 16] = 5
    out.write_bytes(damaged)
    done = paceline(*TINY, "--context", 8, "--output", "out.h5", "--resume")
    assert done.code == 2
    assert "cannot read out.h5" in done.message
    assert out.read_bytes() == damaged
