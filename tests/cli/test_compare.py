"""compare: verdicts, exit codes, refused files and options, and verdicts on recorded runs."""

import importlib.util
import json
import shutil

import h5py
import pytest

import synthetic
from analysis.result_file import decompressed
from conftest import ROOT


def result_file(path, seconds, repetitions=10, **factors):
    """A file of one case with steps of `seconds`, spread over 0.2%."""
    steps = [seconds * (1 + 0.002 * i / repetitions) for i in range(repetitions)]
    return synthetic.write_file(path, [synthetic.case({"context": 8} | factors, {"step": [steps]})])


@pytest.fixture
def two_runs(tmp_path):
    """a.h5 with steps of 10 ms, b.h5 with steps of 20 ms."""
    result_file(tmp_path / "a.h5", 0.010)
    result_file(tmp_path / "b.h5", 0.020)


def test_verdicts_and_codes(paceline, two_runs):
    slower = paceline("compare", "a.h5", "b.h5")
    assert slower.code == 1
    assert "1 slower" in slower.out
    faster = paceline("compare", "b.h5", "a.h5")
    assert faster.code == 0
    assert "1 faster" in faster.out
    same = paceline("compare", "a.h5", "a.h5")
    assert same.code == 0
    assert "1 same" in same.out
    wide = paceline("compare", "a.h5", "b.h5", "--threshold", 200)
    assert wide.code == 0
    assert "1 same" in wide.out


def test_json(paceline, two_runs):
    done = paceline("compare", "a.h5", "b.h5", "--json")
    assert done.code == 1
    (line,) = done.out.splitlines()
    row = json.loads(line)
    assert row["verdict"] == "slower"
    assert row["b_median_s"] / row["a_median_s"] == pytest.approx(2)
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert (row["pairs"], row["a_repetitions"], row["b_repetitions"]) == (1, 10, 10)


def test_pairs_of_runs(paceline, tmp_path):
    """Runs differ by up to 3x from pair to pair, but in each pair B is 4% slower than A."""
    files = []
    for i in range(10):
        for side, factor in (("a", 1), ("b", 1.04)):
            files.append(f"{side}{i}.h5")
            result_file(tmp_path / files[-1], 0.01 * (1 + i % 3) * factor)
    few = paceline("compare", *files[:18])
    assert (few.code, "1 undecided" in few.out, "from 10 pairs on" in few.out) == (0, True, True)
    enough = paceline("compare", *files)
    assert (enough.code, "1 slower" in enough.out) == (1, True)


def test_a_summary_that_contradicts_the_samples_is_refused(paceline, two_runs, tmp_path):
    with h5py.File(tmp_path / "b.h5", "a") as f:
        f["summary/step_median_s"][:] = 0.010
    done = paceline("compare", "a.h5", "b.h5")
    assert done.code == 2
    assert "b.h5: case case-000: step_median_s is 0.01 in the summary and 0.02" in done.message
    assert done.out == ""


def replace(group, name, values):
    del group[name]
    group[name] = values


SAMPLES = "b.h5: case case-000: samples/step: "
NO_TIME = SAMPLES + "rank 0 took %s s in repetition 3"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda case: case["samples"].attrs.__delitem__("headline"), "cannot read b.h5"),
        (lambda case: case["samples"].__delitem__("step"), "cannot read b.h5"),
        (lambda case: case["samples/step"].__setitem__((0, 3), float("nan")), NO_TIME % "nan"),
        (lambda case: case["samples/step"].__setitem__((0, 3), -1), NO_TIME % "-1"),
        (lambda case: case["samples/step"].__setitem__((0, 3), float("inf")), NO_TIME % "inf"),
        (lambda case: case["samples/step"].__setitem__((0, 0), 9), "by the samples"),
        (lambda case: replace(case["samples"], "step", [0.1] * 10), SAMPLES + "it is not [r"),
        (lambda case: replace(case["samples"], "step", [[1, 2]]), SAMPLES + "it does not hold"),
        (lambda case: replace(case["samples"], "step", [["a"]]), SAMPLES + "it does not hold"),
        (lambda case: case.attrs.__setitem__("status", "maybe"), "'maybe' is not a status"),
    ],
    ids=[
        "no headline", "no samples", "not a number", "negative", "infinite", "another number",
        "no ranks", "whole numbers", "texts", "an unknown status",
    ],
)  # fmt: skip
def test_damaged_samples(paceline, two_runs, tmp_path, damage, says):
    with h5py.File(tmp_path / "b.h5", "a") as f:
        damage(f["cases/case-000"])
    done = paceline("compare", "a.h5", "b.h5")
    assert done.code == 2
    assert "b.h5" in done.message
    assert says in done.message


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("a.h5",), "2"),
        (("a.h5", "b.h5", "c.h5"), "3 given"),
        (("a.h5", "b.h5", "a.h5", "c.h5"), "a.h5 is given twice"),
        (("a.h5", "b.h5", "--threshold", "-1"), "--threshold"),
        (("a.h5", "b.h5", "--threshold", "nan"), "--threshold"),
        (("a.h5", "b.h5", "--threshold", ""), "--threshold"),
        (("a.h5", "b.h5", "--threshold", "2%"), "--threshold"),
        (("a.h5", "."), "cannot read ."),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_wrong_use(paceline, two_runs, tmp_path, args, says):
    shutil.copy(tmp_path / "b.h5", tmp_path / "c.h5")
    done = paceline("compare", *args)
    assert done.code == 2
    assert says in done.message
    assert done.out == ""


def test_a_sweep_that_did_not_end_has_to_be_merged(paceline, two_runs, tmp_path):
    (tmp_path / "c.h5.cases").mkdir()
    assert "No such file" in paceline("compare", "a.h5", "c.h5").message
    (tmp_path / "c.h5.cases" / "case.h5").touch()
    done = paceline("compare", "a.h5", "c.h5")
    assert done.code == 2
    assert done.message == (
        "paceline: c.h5 does not exist, but c.h5.cases holds finished cases of a run that did not "
        "end: make it with paceline merge c.h5"
    )


@pytest.mark.parametrize(
    "name",
    ["results/reference/ddp-course-h200.h5", "tests/golden/attention-schema1.h5.xz",
     "tests/golden/model-schema1.h5.xz"],
)  # fmt: skip
def test_files_of_schema_version_1_are_compared(paceline, name):
    path = decompressed(ROOT / name)
    with h5py.File(path) as f:
        assert f.attrs["schema_version"] == 1
    done = paceline("compare", path, path, "--json")
    assert done.code == 0, done.err
    verdicts = [json.loads(line)["verdict"] for line in done.out.splitlines()]
    assert "same" in verdicts
    assert set(verdicts) <= {"same", "not ok"}


def false_alarms():
    """The module bench/false_alarms.py, which is not in a package."""
    spec = importlib.util.spec_from_file_location(
        "false_alarms", ROOT / "bench" / "false_alarms.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("size", [1, 4, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("series", "count"), [("identical_runs", 200), ("identical_long_runs", 100)]
)
def test_identical_runs_beside_a_busy_loop(series, count, size):
    """On series recorded by bench/false_alarms.py; see docs/measuring.md."""
    bench = false_alarms()
    pairs = bench.pairs_of(ROOT / "tests" / "golden" / f"{series}.h5")
    assert len(pairs) == count
    found = bench.verdicts(pairs, size, slowdown=0)
    assert found.total() == count - size + 1
    assert found["slower"] + found["faster"] <= 0.01 * found.total()
    assert set(found) <= {"slower", "faster", "same", "undecided"}


def test_a_slowdown_is_found_when_pairs_differ_in_nothing_else():
    """Replaces the second run of each pair by the first, so that only the slowdown differs."""
    bench = false_alarms()
    pairs = bench.pairs_of(ROOT / "tests" / "golden" / "identical_runs.h5")
    pairs[:, 1] = pairs[:, 0]
    for slowdown in (5, 10):
        assert bench.verdicts(pairs[:40], 10, slowdown) == {"slower": 31}


REFERENCE = """
[[value]]
case = {{ size = "tiny", context = 8 }}
column = "{column}"
value = {value}
tolerance = {tolerance}
better = "{better}"
"""


@pytest.mark.parametrize(
    ("value", "tolerance", "better", "verdict", "code"),
    [
        (0.0200, 5, "lower", "within", 0),
        (0.0190, 4, "lower", "regression", 1),
        (0.0190, 10, "lower", "within", 0),
        (0.0300, 4, "lower", "better", 0),
        (0.0300, 4, "higher", "regression", 1),
        (0.0100, 4, "higher", "better", 0),
    ],
)
def test_verdicts_against_a_reference(paceline, tmp_path, value, tolerance, better, verdict, code):
    """A and B take 20 ms."""
    result_file(tmp_path / "a.h5", 0.020, size="tiny")
    column = "step_median_s"
    text = REFERENCE.format(column=column, value=value, tolerance=tolerance, better=better)
    (tmp_path / "r.toml").write_text(text)
    done = paceline("compare", "a.h5", "a.h5", "--reference", "r.toml", "--json")
    assert done.code == code, done.err
    row = json.loads(done.out.splitlines()[-1])
    assert row["verdict"] == verdict
    assert (row["column"], row["context"]) == ("step_median_s", 8)
    assert row["measured"] == pytest.approx(0.020, rel=0.01)
    table = paceline("compare", "a.h5", "a.h5", "--reference", "r.toml")
    assert table.code == code
    assert table.out.endswith(f"reference: 1 {verdict}\n")


def test_a_reference_value_without_a_matching_case_is_missing(paceline, tmp_path):
    result_file(tmp_path / "a.h5", 0.020, size="small")
    text = REFERENCE.format(column="step_median_s", value=1, tolerance=1, better="lower")
    (tmp_path / "r.toml").write_text(text)
    done = paceline("compare", "a.h5", "a.h5", "--reference", "r.toml")
    assert done.code == 0
    assert done.out.endswith("reference: 1 missing\n")


GOOD = REFERENCE.format(column="step_median_s", value=1, tolerance=1, better="lower")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "r.toml: a reference is a list of [[value]] tables"),
        ("value = 3", "r.toml: a reference is a list of [[value]] tables"),
        ("value = [3]", "r.toml:1:10: a reference is a list of [[value]] tables"),
        ("[[value]]", "'case' is missing"),
        ("[[value", "r.toml:1:"),
        (GOOD.replace("lower", "smaller"), "r.toml:7:10: 'smaller'"),
        (GOOD.replace("tolerance = 1", "tolerance = -1"), "'tolerance' is not a number from 0 on"),
        (GOOD.replace("value = 1", "value = nan"), "'value' is not a number"),
        (GOOD.replace("value = 1", 'value = "fast"'), "'value' is not a number"),
        (GOOD.replace("column", "columns"), "r.toml:4:1: 'columns' is none of case, column"),
        (GOOD.replace("context", "contxt"), "no factor 'contxt' (did you mean context?)"),
        (GOOD.replace("step_median_s", "speed"), "a.h5 has no column 'speed'"),
        (GOOD.replace("step_median_s", "status"), "a.h5 has no column 'status' of numbers"),
        (GOOD.replace("8 }", "[8] }"), "factor 'context' is an array"),
        (GOOD.replace('size = "tiny", context = 8', ""), "'case' is not a table of factors"),
        (GOOD.replace(", context = 8", ""), "a.h5 has several cases with size tiny"),
        (None, "r.toml"),
    ],
    ids=lambda v: "",
)
def test_a_bad_reference_file_is_refused(paceline, tmp_path, text, says):
    cases = [
        synthetic.case({"size": "tiny", "context": context}, {"step": [[1.0] * 6]})
        for context in (8, 16)
    ]
    synthetic.write_file(tmp_path / "a.h5", cases)
    if text is not None:
        (tmp_path / "r.toml").write_text(text)
    done = paceline("compare", "a.h5", "a.h5", "--reference", "r.toml")
    assert done.code == 2
    assert says in done.message
    assert done.out == ""


def test_results_without_times_need_no_repetitions(paceline):
    args = ("precision", "--study", "accumulation", "--arithmetic", "fp32", "--quiet")
    assert paceline(*args, "--output", "p.h5").code == 0
    done = paceline("compare", "p.h5", "p.h5")
    assert done.code == 0
    assert "these results have no times; --reference F.toml compares their values" in done.out
    assert "--steps" not in done.out
