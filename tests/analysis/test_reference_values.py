"""`compare --reference`: values that result files must reach."""

import json
from math import nan

import pytest

from synthetic import case, write_file

ENTRY = """
[[value]]
case = {{ size = "tiny", context = 8 }}
column = "{column}"
value = {value}
tolerance = {tolerance}
better = "{better}"
"""
RATE = ENTRY.format(column="tokens_per_s", value=1000, tolerance=5, better="higher")
GPU = [("A GPU", "GPU-1", "node1")]


@pytest.fixture
def write(tmp_path):
    """write(seconds, name, rate): a file of one case, on a GPU."""

    def make(seconds=0.02, name="a.h5", rate=1000.0, **more):
        factors = {"size": "tiny", "context": 8}
        one = case(factors, {"step": [[seconds] * 6]}, summary={"tokens_per_s": rate}, **more)
        write_file(tmp_path / name, [one], ranks=GPU)

    return make


@pytest.mark.parametrize(
    ("value", "tolerance", "better", "verdict", "code"),
    [
        (0.0200, 5, "lower", "within", 0), (0.0190, 4, "lower", "regression", 1),
        (0.0190, 10, "lower", "within", 0), (0.0300, 4, "lower", "better", 0),
        (0.0300, 4, "higher", "regression", 1), (0.0100, 4, "higher", "better", 0),
    ],
)  # fmt: skip
def test_verdicts(compare, write, tmp_path, value, tolerance, better, verdict, code):
    """The step takes 20 ms."""
    write(0.020)
    text = ENTRY.format(column="step_median_s", value=value, tolerance=tolerance, better=better)
    (tmp_path / "r.toml").write_text(text)
    done = compare("a.h5", "--reference", "r.toml", "--json")
    assert (done.code, done.err) == (code, "")
    row = json.loads(done.out)
    assert row["verdict"] == verdict
    assert (row["column"], row["context"]) == ("step_median_s", 8)
    assert row["measured"] == pytest.approx(0.020, rel=0.01)
    done = compare("a.h5", "--reference", "r.toml")
    assert done.code == code
    assert "  step_median_s: tiny, context 8\n" in done.out
    assert done.out.endswith(f"\n1 {verdict}\n")


@pytest.mark.parametrize(
    ("rate", "status", "code", "verdict"),
    [
        (950.0, "ok", 0, "within"), (949.0, "ok", 1, "regression"), (nan, "ok", 1, "regression"),
        (1000.0, "error", 1, "regression"),
    ],
)  # fmt: skip
def test_five_percent_below_a_rate_passes(compare, write, tmp_path, rate, status, code, verdict):
    write(rate=rate, status=status)
    (tmp_path / "r.toml").write_text(RATE)
    done = compare("a.h5", "--reference", "r.toml")
    assert (done.code, done.out.endswith(f"\n1 {verdict}\n")) == (code, True)


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ("", "within"), ('file = "a"', "regression"), ('file = "b"', "within"),
        ('file = "c"', "missing"), ('device = "A GPU"', "within"),
        ('device = "Another GPU"', "missing"), ('file = "b"\ndevice = "A GPU"', "within"),
    ],
)  # fmt: skip
def test_files_and_devices_that_are_meant(compare, write, tmp_path, more, verdict):
    """The median over files, unless one is named."""
    for name, rate in (("a.h5", 1.0), ("b.h5", 1000.0), ("d.h5", 1001.0)):
        write(name=name, rate=rate)
    (tmp_path / "r.toml").write_text(RATE + more)
    done = compare("a.h5", "b.h5", "d.h5", "--reference", "r.toml")
    assert (done.code, done.out.endswith(f"\n1 {verdict}\n")) == (
        int(verdict == "regression"),
        True,
    )


def test_a_value_without_a_matching_case_is_missing(compare, write, tmp_path):
    write()
    (tmp_path / "r.toml").write_text(RATE.replace("tiny", "small"))
    done = compare("a.h5", "--reference", "r.toml")
    assert (done.code, done.out.endswith("\n1 missing\n")) == (0, True)


GOOD = ENTRY.format(column="step_median_s", value=1, tolerance=1, better="lower")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "r.toml: a reference is a list of [[value]] tables"),
        ("value = 3", "r.toml: a reference is a list of [[value]] tables"),
        ("value = [3]", "r.toml: a reference is a list of [[value]] tables"),
        ("a = 3\n" + GOOD, "r.toml: a reference is a list of [[value]] tables and nothing else"),
        ("[[value]]", "r.toml: value 1: 'case' is missing"),
        ("[[value", "r.toml: is not TOML: "),
        ("a = " + "[" * 10000, "r.toml: is not TOML: "),
        (GOOD.replace("lower", "smaller"), "r.toml: value 1: 'better' is 'smaller': give higher"),
        (GOOD.replace("tolerance = 1", "tolerance = -1"), "'tolerance' is not a number from 0 on"),
        (GOOD.replace("value = 1", "value = nan"), "'value' is not a number"),
        (GOOD.replace("value = 1", 'value = "fast"'), "'value' is not a number"),
        (GOOD + GOOD.replace("column", "columns"), "r.toml: value 2: 'columns' is none of case, c"),
        (GOOD.replace("context", "contxt"), "no factor 'contxt' (did you mean context?)"),
        (GOOD.replace("step_median_s", "speed"), "a.h5 has no column 'speed'"),
        (GOOD.replace("step_median_s", "status"), "a.h5 has no column 'status' of numbers"),
        (GOOD.replace("8 }", "[8] }"), "'case' is not a table of factors"),
        (GOOD.replace('size = "tiny", context = 8', ""), "'case' is not a table of factors"),
        (GOOD.replace(", context = 8", ""), "a.h5 has several cases with size tiny"),
        (None, "r.toml: cannot be read: No such file"),
    ],
    ids=lambda v: "",
)
def test_a_bad_reference_file_is_refused(compare, tmp_path, text, says):
    cases = [
        case({"size": "tiny", "context": context}, {"step": [[1.0] * 6]}) for context in (8, 16)
    ]
    write_file(tmp_path / "a.h5", cases)
    if text is not None:
        (tmp_path / "r.toml").write_text(text)
    done = compare("a.h5", "--reference", "r.toml")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err
