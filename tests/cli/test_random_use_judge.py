"""random_use.judge reports every kind of bad exit, output and result file."""

import shutil
from dataclasses import replace

import h5py
import numpy as np
import pytest

from conftest import command
from random_use.judge import as_if_printed, judge
from random_use.lines import Use
from random_use.rows import Insane
from random_use.runs import HUNG, Done, run

DDP = Use(
    "ddp",
    0,
    {
        "--device": "cpu", "--threads": "1", "--size": "tiny", "--context": "2,3", "--vocab": "8",
        "--warmup": "1", "--steps": "6", "--verify": "1", "--output": "out.h5", "--quiet": None,
    },
)  # fmt: skip
REFUSED = replace(DDP, valid=False)
SAID = "paceline: --context: 0 is not allowed; use 1 to 16777216\n"


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """(folder with the result file of DDP, how the command ended)."""
    folder = tmp_path_factory.mktemp("measured")
    return folder, run(folder, command(0, *DDP.arguments))


@pytest.fixture
def copied(measured, tmp_path):
    folder, done = measured
    shutil.copy(folder / "out.h5", tmp_path)
    return tmp_path, done


def complaint(use, done, folder):
    try:
        judge(use, done, folder)
    except Insane as error:
        return str(error)
    return ""


# ---- files ------------------------------------------------------------------------------------


def put(name, value):
    """Sets the first element of a dataset of the first case, or of the summary."""

    def spoil(file):
        data = file[name.replace("CASE", next(iter(file["cases"])))]
        data[(0,) * data.ndim] = value

    return spoil


def first_case(file):
    return next(iter(file["cases"].values()))


def with_status(status, reason):
    def spoil(file):
        name = file["summary/case"].asstr()[0]
        file["cases"][name].attrs["status"] = status
        file["summary/status"][0], file["summary/reason"][0] = status, reason

    return spoil


BAD_FILES = {
    "time is NaN": (put("summary/step_median_s", np.nan), "step: median is nan"),
    "times out of order": (put("summary/step_p95_s", 1e3), "not in order"),
    "interval is missing": (put("summary/step_ci_low_s", np.nan), "an interval"),
    "sample is NaN": (put("cases/CASE/samples/step", np.nan), "not finite"),
    "loss": (put("summary/loss", np.nan), "loss is nan"),
    "peak memory": (put("summary/peak_bytes", 0), "peak_bytes is 0"),
    "rate": (put("summary/mfu_measured", -1), "mfu_measured is -1"),
    "row is missing": (lambda f: f["cases"].popitem(), "rows and cases differ"),
    "phase is missing": (lambda f: first_case(f)["samples"].pop("backward"), "phases are"),
    "no summary": (lambda f: f.pop("summary"), "unreadable"),
    "not complete": (lambda f: f.attrs.update(complete=False), "complete: False"),
    "factor": (lambda f: first_case(f).attrs.update(redop="sum"), "redop is there"),
    "factor differs": (lambda f: first_case(f).attrs.update(vocab=9), "vocab is 9 and 8"),
    "no description": (lambda f: f["summary/loss"].attrs.pop("description"), "without descr"),
    "mismatch": (with_status("mismatch", "wrong"), "is mismatch: wrong"),
    "oom": (with_status("oom", "full"), "oom without a limit"),
    "ok for a reason": (with_status("ok", "luck"), "for the reason 'luck'"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_reported(copied, name):
    spoil, says = BAD_FILES[name]
    folder, done = copied
    with h5py.File(folder / "out.h5", "r+") as file:
        spoil(file)
    assert says in complaint(DDP, done, folder)


# ---- exits ------------------------------------------------------------------------------------

BAD_ENDS = {
    "hang": (Done(HUNG), "hang"),
    "internal error": (Done(7, err="paceline: internal error: x\n"), "internal error"),
    "failed collective": (Done(5, err="paceline: --timeout: rank 1\n"), "code 5"),
    "library's own message": (Done(2, err="HDF5-DIAG: Error\n" + SAID), "fault"),
    "no line": (Done(2, err="usage: no\n"), "lines: 0"),
    "two lines": (Done(2, err=SAID * 2), "lines: 2"),
    "no option": (Done(2, err="paceline: wrong\n"), "unnamed"),
    "long line": (Done(2, err="paceline: --context: " + "x" * 400), "long"),
    "jargon": (Done(2, err="paceline: --tokens: H5Fopen failed\n"), "jargon"),
    "nothing written": (Done(0), "unreadable"),
}


@pytest.mark.parametrize("name", BAD_ENDS)
def test_bad_exits_are_reported(tmp_path, name):
    done, says = BAD_ENDS[name]
    assert says in complaint(REFUSED, done, tmp_path)


@pytest.mark.parametrize("name", ["out.h5", "out.h5.cases", "dump.h5", "temporary"])
def test_files_left_by_a_refusal_are_reported(tmp_path, name):
    (tmp_path / name).mkdir()
    assert "left" in complaint(REFUSED, Done(2, err=SAID), tmp_path)


def test_a_refusal_of_a_valid_command_line_is_reported(tmp_path):
    assert "refused" in complaint(DDP, Done(2, err=SAID), tmp_path)


@pytest.mark.parametrize(
    ("options", "changes", "says"),
    [
        ({}, {"err": SAID}, "said"),
        ({}, {"err": "Traceback (most recent call last):"}, "fault"),
        ({}, {"out": "tiny  2  nan us"}, "'tiny  2  nan us' is printed"),
        ({"--json": None}, {"out": "{}\n"}, "1 lines of 2 cases"),
        ({"--json": None}, {"out": '{"loss":NaN}\n{}\n'}, "NaN is not JSON"),
        ({"--dry-run": None}, {}, "left"),
        ({"--dump": "dump.h5"}, {}, "left"),
    ],
    ids=str,
)
def test_bad_output_with_exit_code_0_is_reported(copied, options, changes, says):
    folder, done = copied
    use = replace(DDP, options=DDP.options | options)
    assert says in complaint(use, replace(done, **changes), folder)


def test_leftover_case_files_are_reported(copied):
    folder, done = copied
    (folder / "out.h5.cases").mkdir()
    assert "left" in complaint(DDP, done, folder)


def test_output_that_is_lost_must_be_reported():
    with pytest.raises(Insane, match="closed"):
        as_if_printed(Done(0))
    said = "paceline: standard output cannot be written (a closed pipe?): a part of it is lost\n"
    assert as_if_printed(Done(6, err=said)) == Done(0)
    assert as_if_printed(Done(2, err=SAID)) == Done(2, err=SAID)
