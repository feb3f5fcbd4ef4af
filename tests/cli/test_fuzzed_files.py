"""Some seeds of tests/fuzz/files.py, and regression tests of what other seeds have found."""

import os
import shutil
import subprocess
import sys

import h5py
import pytest

from conftest import ROOT, command

PROGRAM = ROOT / "tests" / "fuzz" / "files.py"
TINY = ("model", "--size", "tiny", "--device", "cpu", "--warmup", 0, "--steps", 1, "--quiet")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "whole.h5"
    line = command(0, *TINY, "--context", 8, "--output", path)
    subprocess.run(line, capture_output=True, timeout=60, check=True)
    return path


def test_damaged_files_end_in_one_line():
    done = subprocess.run(
        [sys.executable, PROGRAM, "--runs", "12"],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_merge_sets_a_damaged_case_aside(paceline, tmp_path, whole):
    folder = tmp_path / "out.h5.cases"
    folder.mkdir()
    for name in ("a.h5", "b.h5"):
        shutil.copy(whole, folder / name)
    with h5py.File(folder / "b.h5", "a") as file:
        file["more"] = h5py.ExternalLink("other.h5", "/")
    done = paceline("merge", "out.h5")
    assert done.code == 0
    assert "warning: out.h5.cases/b.h5 has links to other files" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.h5", "out.h5.b.damaged"]
    with h5py.File(tmp_path / "out.h5") as file:
        assert len(file["cases"]) == 1


def test_merge_sets_a_case_with_a_damaged_root_aside(paceline, tmp_path, whole):
    folder = tmp_path / "out.h5.cases"
    folder.mkdir()
    shutil.copy(whole, folder / "a.h5")
    with h5py.File(folder / "a.h5", "a") as file:
        file.attrs["created"] = [0.0, 0.0]
    done = paceline("merge", "out.h5")
    assert done.code == 2
    assert "cannot read out.h5.cases/a.h5: attribute 'created'" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["out.h5.a.damaged"]


def test_merge_of_damaged_cases_alone_is_an_error(paceline, tmp_path):
    (tmp_path / "out.h5.cases").mkdir()
    (tmp_path / "out.h5.cases" / "a.h5").write_bytes(b"no HDF5 file")
    done = paceline("merge", "out.h5")
    assert done.code == 2
    assert "out.h5: none of its cases can be read" in done.message
    assert [path.name for path in tmp_path.iterdir()] == ["out.h5.a.damaged"]


# A library that notes the threads of the process that reads foreign files.
SPY = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((constructor)) static void note(int argc, char** argv) {
  if (argc < 2 || strncmp(argv[1], "--read-", 7) != 0) return;
  FILE* file = fopen(getenv("NOTES"), "w");
  fprintf(file, "%s %s", getenv("OPENBLAS_NUM_THREADS"), getenv("OMP_NUM_THREADS"));
  fclose(file);
}
"""


def test_the_process_that_reads_foreign_files_starts_no_threads(tmp_path, whole):
    """Their stacks count against its memory limit: on 64 cores, good files were refused."""
    out = shutil.copy(whole, tmp_path / "out.h5")
    (tmp_path / "spy.c").write_text(SPY)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", "spy.so", "spy.c"], cwd=tmp_path, timeout=60, check=True
    )
    spied = {"LD_PRELOAD": str(tmp_path / "spy.so"), "NOTES": str(tmp_path / "notes")}
    threads = {"OPENBLAS_NUM_THREADS": "64", "OMP_NUM_THREADS": "64"}
    subprocess.run(
        command(0, *TINY, "--context", 8, "--output", out, "--resume"),
        env=os.environ | threads | spied, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert (tmp_path / "notes").read_text() == "1 1"


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


def test_quoted_control_characters_are_escaped(paceline):
    done = paceline("a\nb\x1b[2J")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "'a\\nb\\x1b[2J' is not an experiment" in done.message
