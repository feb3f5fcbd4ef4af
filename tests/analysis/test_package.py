"""The package as installed with pip install ./analysis: load() and samples()."""

import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

import analysis
from conftest import ROOT, run_line
from synthetic import case, write_file


@pytest.fixture
def file(tmp_path):
    """A file with a case of one warm-up repetition on two ranks, and a case that did not fit."""
    return write_file(
        tmp_path / "F.h5",
        [
            case({"size": "small"}, {"step": [[1.0, 2.0], [3.0, 4.0]]}, {"step": [[9.0], [8.0]]}),
            case({"size": "xl"}, status="oom", reason="too large"),
        ],
    )


def test_load_has_a_row_per_case(file):
    table = analysis.load(file)
    assert list(table["size"]) == ["small", "xl"]
    assert all(isinstance(value, str) for value in table["status"])
    assert table["step_median_s"][0] == 3.5  # the median of 3 and 4, the times of the slower rank
    assert np.isnan(table["step_median_s"][1])
    assert table.attrs["units"]["step_median_s"] == "s"


def test_load_returns_column_descriptions(tmp_path, file):
    with h5py.File(file, "a") as f:
        f["summary/step_median_s"].attrs["description"] = "how long"
    assert analysis.load(str(file)).attrs["descriptions"]["step_median_s"] == "how long"


def test_samples_are_in_long_form(file):
    frame = analysis.samples(file, "case-000")
    assert list(frame) == ["phase", "rank", "repetition", "seconds", "warmup"]
    assert list(frame[frame["warmup"]]["seconds"]) == [9, 8]
    measured = frame[~frame["warmup"]]
    assert list(measured["rank"]) == [0, 0, 1, 1]
    assert list(measured["repetition"]) == [0, 1, 0, 1]
    assert list(measured["seconds"]) == [1, 2, 3, 4]


def test_a_case_without_samples_has_no_rows(file):
    frame = analysis.samples(file, "case-001")
    assert frame.empty
    assert list(frame) == ["phase", "rank", "repetition", "seconds", "warmup"]


def test_missing_cases_and_files_are_named(file, tmp_path):
    with pytest.raises(ValueError, match="no case 'x'; there are case-000, case-001"):
        analysis.samples(file, "x")
    with pytest.raises(ValueError, match="no such file"):
        analysis.load(tmp_path / "none.h5")


@pytest.mark.long
def test_the_package_can_be_installed(tmp_path, file):
    pytest.importorskip("wheel")
    shutil.copytree(ROOT / "analysis", tmp_path / "analysis")  # pip builds in its folder
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
         "--target", tmp_path / "site", tmp_path / "analysis"],
        check=True,
    )  # fmt: skip
    code = (
        "import paceline_analysis as p, sys; table = p.load(sys.argv[1]);"
        "print(len(table), len(p.samples(sys.argv[1], table['case'][0])))"
    )
    for command in (["-c", code, file], ["-m", "paceline_analysis", "tables", file,
                                         "--output", tmp_path / "t.md"]):  # fmt: skip
        done = run_line(tmp_path / "site", [sys.executable, *command])
        assert done.code == 0, done.err
        assert done.out.strip() in ("2 6", str(tmp_path / "t.md"))
    assert "xl" in (tmp_path / "t.md").read_text()
    line = (tmp_path / "site/bin/paceline-analysis", "compare", file, file)
    judged = run_line(tmp_path, line, PYTHONPATH=str(tmp_path / "site"))
    assert judged.out.endswith("\n1 not ok, 1 undecided\n")
