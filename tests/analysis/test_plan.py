"""Plans (paceline plan --json) and ddp --predict in the report and in tables."""

import json

import h5py
import numpy as np
import pytest

from analysis import report, tables
from analysis.__main__ import main
from analysis.report import facts, plan
from analysis.result_file import ResultError
from analysis.results import load
from synthetic import step, write_column

STEP = {
    "section": "step_time", "products_s": 0.06, "traffic_s": 0.03, "fixed_s": 0.0, "tensor_s": 0.0,
    "exchange_s": 0.05, "exposed_s": 0.006, "contention_s": 0.004, "step_s": 0.1,
    "tokens_per_s": 1e4,
}  # fmt: skip
PLAN = [
    {"section": "layout", "tokens": 4096.0, "peak_flops_per_s": 1e15, "element_bytes": 2.0},
    {"section": "state", "parameters": 2e9, "state_bytes": 32e9},
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
     "predicted_peak_bytes": 1e9, "peak_error_percent": -2.0, "sent_error_percent": None},
    {"case": "b", "predicted_step_s": 0.11, "measured_step_s": 0.1, "step_error_percent": 10.0,
     "predicted_peak_bytes": 1e9, "peak_error_percent": 1.0, "sent_error_percent": None},
]  # fmt: skip


@pytest.fixture
def planned(tmp_path):
    def write(rows, name="deep.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        return path

    return write


def section(*paths):
    return plan.section([one for path in paths for one in load([path])])


def test_a_plan_tells_the_step_the_compute_bound_batch_and_the_scaling(planned):
    found = section(planned(PLAN))
    assert found.sentences == [
        "By the plan in deep.jsonl (2.00 billion parameters, 4,096 tokens a step), a step takes "
        "100.0 ms: matrix products 60.0%, other memory traffic 30.0%, exposed exchange 6.0%, "
        "contention with the overlapped exchange 4.0%.",
        "By the plan in deep.jsonl, the layout is compute bound from 1,000 tokens on if "
        "communication is overlapped, at no batch size if the kinds of communication run one after "
        "another; the planned batch has 4,096.",
        "By the plan in deep.jsonl, 64 ranks have an efficiency of 0.900 and a peak of 32.0 GiB "
        "(34.4 GB) each. Extrapolated: collectives of 64 ranks, fitted on 4.",
    ]
    by_name = {table.name: table for table in found.tables}
    assert by_name["deep-step"].rows[0] == ["matrix products", "60.00", "60.0%"]
    assert by_name["deep-step"].rows[-1] == ["exchange, overlapped or not", "50.00", ""]
    assert by_name["deep-compute-bound"].rows == [
        ["overlapped", "1,000", "125"],
        ["serial", "no batch", "no batch"],
        ["serial rings", "no batch", "no batch"],
    ]
    assert by_name["deep-plan-what-if"].rows == [["as planned", "1,000", "–", "4,096", "50.00"]]
    assert by_name["deep-plan-scaling"].rows[1][:2] == ["64", "100.0"]
    assert found.is_measured


def test_a_layout_that_is_never_compute_bound(planned):
    bound = {"section": "compute_bound", "overlapped_tokens": None, "serial_tokens": None}
    (told,) = section(planned([*PLAN[:2], bound])).sentences
    assert told == "By the plan in deep.jsonl, the layout is compute bound at no batch size."


def test_a_compute_bound_batch_that_is_equal_either_way_is_told_once(planned):
    bound = {"section": "compute_bound", "overlapped_tokens": 1000.4, "serial_tokens": 1000.3}
    assert section(planned([*PLAN[:2], bound])).sentences == [
        "By the plan in deep.jsonl, the layout is compute bound from 1,000 tokens on, whether "
        "communication is overlapped or its kinds run one after another; the planned batch has "
        "4,096."
    ]


def test_the_scaling_of_a_plan_without_a_step_is_that_of_the_most_ranks(planned):
    (told,) = section(planned([*PLAN[:2], *PLAN[5:]])).sentences
    assert told.startswith("By the plan in deep.jsonl, 128 ranks have an efficiency of 0.400")


@pytest.mark.parametrize("ranks", [1, 64, 128])
def test_the_scaling_of_a_plan_is_that_of_its_ranks(planned, ranks):
    equal = [{**row, "step_s": 0.1} if row["section"] == "scaling" else row for row in PLAN]
    layout = {**PLAN[0], "ranks": ranks}
    told = section(planned([layout, *equal[1:]])).sentences[-1]
    assert told.startswith(f"By the plan in deep.jsonl, {ranks} ranks have an efficiency of ")


def test_predictions_beside_measured_cases(planned):
    found = section(planned(CHECK, "check.jsonl"))
    assert found.sentences == [
        "The predictions in check.jsonl differ from the measured cases: steps by 10.0% (1 of 2 "
        "cases), peaks by 1.00 to 2.00% (2 of 2 cases), bytes sent not compared."
    ]
    (table,) = found.tables
    assert [row[:3] for row in table.rows] == [["a", "–", "200.0"], ["b", "110.0", "100.0"]]


def add_predictions(path, rows):
    with h5py.File(path, "r+") as file:
        for name, values in rows.items():
            write_column(file.require_group("predict"), name, values)


def test_ddp_predict_is_beside_the_measured_wait(make_file):
    path = make_file([step("bucketed", 0.1, 1.0), step("bucketed", 0.2, 25.0)], experiment="ddp")
    rows = {"case": ["case-001", "case-002"], "bucket_mb": [1.0, 25.0], "buckets": [8.0, 2.0],
            "predicted_overhead_s": [0.002, 0.003], "measured_exposed_s": [0.001, np.nan],
            "measured_step_s": [0.1, 0.2], "predicted_best_bucket_mb": [4.0, 4.0],
            "measured_best_bucket_mb": [1.0, 1.0]}  # fmt: skip
    add_predictions(path, rows)
    found = section(path)
    assert found.sentences == [
        "By ddp --predict (sweep), buckets of 4.00 MB are the best, with a wait of 2.00 times the "
        "measured one; the fastest measured: 1.00 MB."
    ]
    assert found.tables[0].rows[0] == ["sweep", "1.000", "2.000", "1.000", "100.0"]


def test_ddp_predict_is_told_by_setting(make_file):
    """Both best sizes are those of a setting: the prediction depends on the bytes sent, and the
    fastest is among the cases that differ only in the bucket size."""
    cases = [step("bucketed", 0.1, size) for size in (1.0, 25.0, 1.0, 25.0)]
    for case, (context, dtype) in zip(cases, [(128, "fp32")] * 2 + [(256, "bf16")] * 2,
                                      strict=True):  # fmt: skip
        case["factors"] = case["factors"] | {"context": context, "comm_dtype": dtype}
    path = make_file(cases, experiment="ddp")
    add_predictions(path, {
        "case": [f"case-00{n}" for n in range(4)], "bucket_mb": [1.0, 25.0, 1.0, 25.0],
        "buckets": [8.0] * 4, "predicted_overhead_s": [0.002, 0.003, 0.001, 0.001],
        "measured_exposed_s": [0.001, 0.001, 0.002, np.nan], "measured_step_s": [0.1] * 4,
        "predicted_best_bucket_mb": [4.0, 4.0, 2.0, 2.0],
        "measured_best_bucket_mb": [1.0, 1.0, 25.0, 25.0],
    })  # fmt: skip
    names = [one.get("case") for one in facts.cases(load([path]))]
    assert names == [f"case-00{n}" for n in range(4)]
    assert section(path).sentences == [
        "By ddp --predict (sweep) for xl, context 128, batch size 2 per rank, fp32, 2 ranks, "
        "buckets of 4.00 MB are the best, with a wait of 2.00 to 3.00 times the measured one; the "
        "fastest measured: 1.00 MB.",
        "By ddp --predict (sweep) for xl, context 256, batch size 2 per rank, fp32, 2 ranks, sent "
        "as bf16, buckets of 2.00 MB are the best, with a wait of 0.500 times the measured one; "
        "the fastest measured: 25.0 MB.",
    ]


def test_without_a_plan_nothing_is_said(make_file):
    found = section(make_file([step("flat", 0.1)], experiment="ddp"))
    assert not found.is_measured and not found.sentences


def test_the_whole_report_and_the_tables_of_plans(planned, tmp_path):
    paths = [planned(PLAN), planned(PLAN, "wide.jsonl"), planned(CHECK, "check.jsonl")]
    whole = report.of(paths)
    assert [one.name for one in whole.sections if one.sentences] == ["accounting", "plan"]
    page = report.html.page(whole)
    assert "By the plan in wide.jsonl (2.00 billion" in page and "nan" not in page
    names = [table.name for table in tables.of(load([paths[0]])[0])]
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


@pytest.mark.parametrize("arguments", [["--preset", "xxl"], ["--size", "tiny"]])
def test_what_paceline_prints(paceline, planned, arguments):
    done = paceline("plan", *arguments, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    found = section(planned(rows))
    assert "a step takes" in found.sentences[0] and "matrix products" in found.sentences[0]
    assert any(table.name == "deep-step" for table in found.tables)
