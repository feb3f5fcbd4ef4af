"""Damaged result files: exit code 2, one line that names the file, and the file is unchanged."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from conftest import made
from result_files import split_into_case_files

ONCE = ("--device", "cpu", "--warmup", 0, "--steps", 1, "--quiet")
TINY = ("model", "--size", "tiny", "--vocab", 64, *ONCE)


def replace(file, name, value):
    del file[name]
    file[name] = value


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A result file of two cases."""
    return made(tmp_path_factory.mktemp("whole") / "whole.h5", *TINY, "--context", "8,16")


def replace_with_text(file, name):
    replace(file, name, np.array(["8"] * len(file[name]), h5py.string_dtype()))


# Values of another type than the program writes, with the name that the message has.
OTHER_TYPES = {
    "status": lambda file, case: case.attrs.__setitem__("status", 1),
    "stop_reason": lambda file, case: case.attrs.__setitem__("stop_reason", ["a", "b"]),
    "run": lambda file, case: case.attrs.__setitem__("run", 2.5),
    "context": lambda file, case: case.attrs.__setitem__("context", "8"),
    "precision": lambda file, case: case.attrs.__setitem__("precision", 32),
    "complete": lambda file, case: file.attrs.__setitem__("complete", "yes"),
    "reason": lambda file, case: replace(
        file, "summary/reason", np.zeros(len(file["summary/case"]))
    ),
    "step_median_s": lambda file, case: replace_with_text(file, "summary/step_median_s"),
    "active": lambda file, case: replace_with_text(case, "memory/active"),
    "memory": lambda file, case: replace(case, "memory/active", np.zeros(99)),
}


DAMAGES = {
    "no summary": lambda file, _: file.__delitem__("summary"),
    "no cases": lambda file, _: file.__delitem__("cases"),
    "a column too short": lambda file, _: replace(file, "summary/loss", np.zeros(1)),
    "a group for a column": lambda file, _: replace(file, "summary/loss", file["cases"]),
    "names of cases that are numbers": lambda file, _: replace(file, "summary/case", np.zeros(2)),
    "two experiments": lambda file, _: file.attrs.__setitem__("experiment", [1, 2]),
    "no version": lambda file, _: file.attrs.__delitem__("schema_version"),
}


@pytest.mark.parametrize("name", [*OTHER_TYPES, *DAMAGES, "half of it", "no HDF5"])
def test_resume_refuses_damage_and_names_a_value_of_another_type(paceline, tmp_path, whole, name):
    path = Path(shutil.copy(whole, tmp_path / "out.h5"))
    if name == "half of it":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif name == "no HDF5":
        path.write_text("results")
    else:
        with h5py.File(path, "a") as file:
            (OTHER_TYPES | DAMAGES)[name](file, next(iter(file["cases"].values())))
    bad = path.read_bytes()
    done = paceline(*TINY, "--context", "8,16,32", "--output", "out.h5", "--resume")
    assert done.code == 2
    assert "out.h5" in done.message
    if name in OTHER_TYPES:
        assert done.message.startswith("paceline: cannot read out.h5: ")
        assert name in done.message
    assert path.read_bytes() == bad
    assert [p.name for p in tmp_path.iterdir()] == ["out.h5"]


def test_every_file_that_is_set_aside_has_a_name_of_its_own(paceline, tmp_path, whole):
    folder = tmp_path / "out.h5.cases"
    long = "c" * 250
    (tmp_path / "out.h5.b.damaged.2").mkdir()
    for n in range(3):
        split_into_case_files(Path(shutil.copy(whole, tmp_path / "out.h5")))
        for name in ("b", long):
            (folder / f"{name}.h5").write_text(f"{n}")
        done = paceline("merge", "out.h5")
        assert done.code == 0, done.err
    cut = f"out.h5.{long}"
    expected = {
        "out.h5.b.damaged": "0", "out.h5.b.damaged.3": "1", "out.h5.b.damaged.4": "2",
        f"{cut[:247]}.damaged": "0", f"{cut[:245]}.damaged.2": "1", f"{cut[:245]}.damaged.3": "2",
    }  # fmt: skip
    aside = {path.name: path.read_text() for path in tmp_path.glob("*.damaged*") if path.is_file()}
    assert aside == expected
    with h5py.File(tmp_path / "out.h5") as file, h5py.File(whole) as alone:
        assert set(file["cases"]) == set(alone["cases"])
