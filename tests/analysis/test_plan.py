"""Plans (paceline plan --json) in the report and in tables."""

import json

import pytest

from analysis import tables
from analysis.__main__ import main
from analysis.report import paper
from analysis.report.selection import pool_of
from analysis.result_file import ResultError
from analysis.results import load

STEP = {
    "section": "step_time", "products_s": 0.06, "traffic_s": 0.03, "fixed_s": 0.0, "tensor_s": 0.0,
    "exchange_s": 0.05, "exposed_s": 0.006, "contention_s": 0.004, "step_s": 0.1,
    "tokens_per_s": 1e4,
}  # fmt: skip
PLAN = [
    {"section": "layout", "tokens": 4096.0, "peak_flops_per_s": 1e15, "element_bytes": 2.0},
    {"section": "state", "parameters": 2e9, "state_bytes": 32e9, "weights_bytes": 8e9,
     "gradients_bytes": 8e9, "optimizer_bytes": 16e9},
    {"section": "compute_bound", "overlapped_tokens": 1000.4, "overlapped_tokens_per_device": 125.0,
     "serial_tokens": None, "serial_tokens_per_device": None},
    STEP,
    {"section": "what_if", "what": "as planned", "overlapped": 1000.4, "serial": None,
     "batch": 4096.0, "peak_bytes": 5e10},
    {"section": "scaling", "ranks": 1, "step_s": 0.09, "efficiency": 1.0, "peak_bytes": 6e10},
    {"section": "scaling", "ranks": 64, "step_s": 0.1, "efficiency": 0.9, "peak_bytes": 2**35},
    {"section": "scaling", "ranks": 128, "step_s": 0.2, "efficiency": 0.4, "peak_bytes": 2**36},
    {"section": "extrapolated", "note": "collectives of 64 ranks, fitted on 4"},
]  # fmt: skip
CHECK = [
    {"case": "a", "predicted_step_s": None, "measured_step_s": 0.2, "step_error_percent": None,
     "predicted_peak_bytes": 1e9, "measured_peak_bytes": 1e9,
     "peak_error_percent": -2.0, "sent_error_percent": None},
    {"case": "b", "predicted_step_s": 0.11, "measured_step_s": 0.1, "step_error_percent": 10.0,
     "predicted_peak_bytes": 1e9, "measured_peak_bytes": 1e9,
     "peak_error_percent": 1.0, "sent_error_percent": None},
]  # fmt: skip


@pytest.fixture
def planned(tmp_path):
    def write(rows, name="deep.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        return path

    return write


@pytest.fixture
def answered(planned):
    """answered(rows, ...): the answers of the report's questions on plans, by these files."""

    def of(question, *files):
        paths = [planned(rows, f"{number}.jsonl") for number, rows in enumerate(files)]
        pool = pool_of([results for path in paths for results in load([path])])
        return question(pool, tables.Spread.INTERVAL)

    return of


def test_the_largest_plan_answers_the_accounting(answered):
    small = [row | {"parameters": 1e9} if row["section"] == "state" else row for row in PLAN]
    found = answered(paper.accounting, small, PLAN)
    assert found.sentence == (
        "Weights, gradients and optimizer state of 2 billion parameters take 32.00 GB."
    )
    assert found.tables[0].rows == [["as planned", "1,000", "–", "50.00 GB"]]


def test_predictions_beside_measured_cases(answered):
    found = answered(paper.predictions, CHECK)
    assert found.sentence == (
        "Predicted steps are 10% off in the median of 1 cases, at most 10%; predicted memory at "
        "most 1%."
    )
    assert found.tables[0].rows[0][:4] == ["b", "110.0", "100.0", "+10.0%"]


def test_without_a_plan_nothing_is_said(answered):
    assert answered(paper.predictions, PLAN) is None
    assert answered(paper.accounting, CHECK) is None


def test_the_tables_of_a_plan(planned):
    names = [table.name for table in tables.of(load([planned(PLAN)])[0])]
    assert names == ["plan-state", "plan-step-time", "plan-what-if", "plan-scaling"]


def test_a_plan_has_no_figure(planned, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["figures", str(planned(PLAN)), "--output", str(tmp_path / "f")])
    assert "nothing to draw" in capsys.readouterr().err


SCALING = {"section": "scaling", "ranks": 2, "step_s": 1.0, "efficiency": 1.0, "peak_bytes": 1}
CHECKED = {f"{name}_error_percent": 1.0 for name in ("step", "peak", "sent")}
STEPS = {"variant": "eager", "size": "xl", "context": 1, "batch_size": 1, "step_median_s": 0.1}
OPS = {"variant": "sync", "op": "all_reduce", "ranks": 2, "bytes": 8, "time_median_s": 0.1}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], ": has no rows of bench/peers/ or of paceline plan --json"),
        ([{}], ": has no rows of bench/peers/ or of paceline plan --json"),
        ([[1]], ": line 1: is not an object"),
        ([SCALING, {"predicted": 1}], ": line 2: has no section"),
        ([SCALING, SCALING | {"ranks": "many"}], ": line 2: ranks is many"),
        ([SCALING, SCALING | {"ranks": [2]}], ": line 2: ranks is neither a number nor a text"),
        ([SCALING | {"ranks": float("nan")}], ": line 1: ranks is NaN"),
        ([SCALING | {"ranks": 10**400}], f": line 1: ranks is 1{'0' * 39}"),
        ([{"section": "scaling", "ranks": 2}], ": line 1: has no step_s"),
        ([CHECKED | {"predicted_step_s": "x"}], ": line 1: predicted_step_s is x"),
        ([{"predicted_step_s": 1.0}], ": line 1: has no step_error_percent"),
        ([STEPS, STEPS | {"step_median_s": "fast"}], ": line 2: step_median_s is fast"),
        ([STEPS, STEPS | {"step_median_s": -1.0}], ": line 2: step_median_s is -1"),
        ([STEPS, STEPS | {"peak_bytes": "\x1b[31m"}], r": line 2: peak_bytes is \x1b[31m"),
        ([STEPS, {"size": "xl"}], ": line 2: has no variant"),
        ([OPS, {"op": "all_reduce", "variant": "sync"}], ": line 2: has no ranks"),
        ([OPS, OPS | {"ranks": "two"}], ": line 2: ranks is two"),
        ([OPS, OPS | {"steps": {}}], ": line 2: steps is neither a number nor a text"),
    ],
)
def test_rows_of_nothing_known(planned, rows, says):
    path = planned(rows)
    with pytest.raises(ResultError) as raised:
        load([path])
    assert str(raised.value) == f"{path}{says}"


@pytest.mark.parametrize("rows", [[STEPS | {"size": 5, "variant": 7}], [OPS | {"ranks": "2"}]])
def test_numbers_for_texts_and_texts_for_numbers(planned, rows, tmp_path):
    main(["tables", str(planned(rows)), "--output", str(tmp_path / "t.md")])


@pytest.mark.parametrize("name", ["t.csv", "t.md"])
def test_a_plan_of_unknown_sections_has_no_table(planned, tmp_path, capsys, name):
    path = planned([{"section": "other", "ranks": 2}])
    with pytest.raises(SystemExit):
        main(["tables", str(path), "--output", str(tmp_path / name)])
    assert capsys.readouterr().err == f"analysis: {path}: has nothing for a table\n"


def test_a_field_of_two_sections(planned):
    rows = [row | {"ranks": 2} for row in PLAN[:2]]
    assert list(load([planned(rows)])[0].frame["ranks"]) == [2]


@pytest.mark.parametrize("rows", [b"{", b"\xff", b'{"section": 1}\n{'])
def test_what_is_no_json(tmp_path, rows):
    path = tmp_path / "odd.jsonl"
    path.write_bytes(rows)
    with pytest.raises(ResultError, match=r"odd\.jsonl: (line \d: is not JSON|is not UTF-8)"):
        load([path])


def test_what_paceline_prints_answers_the_accounting(paceline, answered):
    done = paceline("plan", "--preset", "xxl", "--json")
    found = answered(paper.accounting, [json.loads(line) for line in done.out.splitlines()])
    assert found.number == "3,518 GB"
    parts = [part for part, _ in found.parts]
    assert sorted(set(parts)) == [f"communication_accounting ({part})" for part in "abcd"]
    assert "from 20,444 tokens (319 a device)" in dict(found.parts)["communication_accounting (c)"]
