"""`compare`: damaged and hostile files, and wrong use."""

import shutil
from math import nan

import h5py
import numpy as np
import pytest

from analysis import comparison
from synthetic import case


def timed(seconds, **factors):
    return case({"size": "small"} | factors, {"step": [[seconds] * 6]})


@pytest.mark.parametrize("statistic", ["median", "mean", "min", "max"])
def test_a_summary_that_contradicts_the_samples_is_refused(compare, write, statistic):
    write("a.h5", timed(0.01))
    with h5py.File(write("b.h5", timed(0.02)), "a") as file:
        file[f"summary/step_{statistic}_s"][:] = 0.01
    done = compare("a.h5", "b.h5")
    assert (done.code, done.out) == (2, "")
    assert f"b.h5: case case-000: step_{statistic}_s is 0.01 in the summary and 0.0" in done.err


def test_a_summary_of_other_cases_is_refused(compare, write):
    with h5py.File(write("a.h5", timed(1)), "a") as file:
        file["cases"].move("case-000", "case-001")
    done = compare("a.h5", "a.h5")
    assert (done.code, "a.h5: the summary names other cases" in done.err) == (2, True)


def replace(group, name, values):
    del group[name]
    group[name] = values


SAMPLES = "b.h5: /cases/case-000/samples/step"
NO_TIME = f"{SAMPLES}: rank 0 took %s s in repetition 3"
UNREADABLE = "b.h5: cannot be read"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda case: case["samples"].attrs.__delitem__("headline"), UNREADABLE),
        (lambda case: case["samples"].__delitem__("step"), UNREADABLE),
        (lambda case: case["samples/step"].__setitem__((0, 3), nan), NO_TIME % "nan"),
        (lambda case: case["samples/step"].__setitem__((0, 3), -1), NO_TIME % "-1.0"),
        (lambda case: case["samples/step"].__setitem__((0, 3), float("inf")), NO_TIME % "inf"),
        (lambda case: case["samples/step"].__setitem__((0, 0), 9), "by the samples"),
        (lambda case: replace(case["samples"], "step", [0.1] * 10), f"{SAMPLES} is not [rank"),
        (lambda case: replace(case["samples"], "step", [[1, 2]]), f"{SAMPLES} is not [rank"),
        (lambda case: replace(case["samples"], "step", [["a"]]), f"{SAMPLES} is not [rank"),
        (lambda case: case.attrs.__delitem__("status"), UNREADABLE),
        (lambda case: case.file.__delitem__("summary"), "b.h5"),
        (lambda case: case.file.__delitem__("ranks"), "b.h5"),
        (lambda case: replace(case.file, "summary/case", np.zeros(1)), "b.h5"),
        (lambda case: case.file.attrs.__delitem__("schema_version"), "b.h5"),
    ],
    ids=[
        "no headline", "no samples", "not a number", "negative", "infinite", "another number",
        "no ranks", "whole numbers", "texts", "no status", "no summary", "no table of ranks",
        "numbers for names", "no version",
    ],
)  # fmt: skip
def test_damaged_samples(compare, write, damage, says):
    write("a.h5", timed(1))
    with h5py.File(write("b.h5", timed(2)), "a") as file:
        damage(file["cases/case-000"])
    done = compare("a.h5", "b.h5")
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a.h5",), "A.h5 B.h5, or more in pairs, A1.h5 B1.h5 A2.h5 B2.h5; 1 given"),
        (("a.h5", "b.h5", "c.h5"), "3 given"),
        (("a.h5", "b.h5", "a.h5", "c.h5"), "a.h5 is given twice"),
        (("a.h5", "b.h5", "--threshold", "-1"), "--threshold"),
        (("a.h5", "b.h5", "--threshold", "nan"), "--threshold"),
        (("a.h5", "b.h5", "--threshold", "2%"), "--threshold"),
        (("a.h5", "."), ".: is a folder"),
        (("a.h5", "none.h5"), "none.h5: no such file"),
        (("a.h5", "b.h5", "--reference", ""), "--reference"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_wrong_use(compare, write, tmp_path, arguments, says):
    shutil.copy(write("a.h5", timed(1)), tmp_path / "b.h5")
    shutil.copy(tmp_path / "a.h5", tmp_path / "c.h5")
    done = compare(*arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert done.err.count("\n") == 1


def test_a_defect_does_not_exit_as_a_regression_does(compare, write, monkeypatch):
    write("a.h5", timed(1))
    monkeypatch.setattr(comparison, "judge", lambda *_: 1 / 0)
    done = compare("a.h5", "a.h5")
    assert (done.code, "ZeroDivisionError" in done.err) == (7, True)


def test_control_characters_do_not_reach_the_terminal(compare, write):
    odd = "a\x1b[2Jb\nINJECTED"
    lost = case({"size": "small", "mode": "o"}, status="oom", reason=odd)
    write(f"{odd}.h5", timed(1, mode=odd), timed(1, mode="z"), lost)
    done = compare(f"{odd}.h5", f"{odd}.h5")
    assert done.code == 0
    assert done.out.count(r"a\x1b[2Jb\nINJECTED") == 5
    assert all(map(str.isprintable, done.out.split("\n")))


def test_files_from_before_the_warm_up_study_changed_compare(compare, write):
    write("old.h5", timed(0.01, cold_start=False))
    write("new.h5", timed(0.01))
    assert compare("old.h5", "new.h5").code == 0
    write("cold.h5", timed(0.01, cold_start=True))
    assert compare("cold.h5", "new.h5").code == 2
