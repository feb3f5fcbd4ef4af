"""The rule of which case answers, on small files, and the report of unusual ones."""

import re
from dataclasses import replace

import h5py
import numpy as np
import pandas as pd
import pytest

from analysis import figures, pairs, report
from analysis.__main__ import main
from analysis.report import published
from analysis.report.answer import Drawing
from analysis.report.questions import QUESTIONS
from analysis.report.selection import beside, leading, pool_of
from analysis.result_file import ResultError
from analysis.results import load
from analysis.workers import Progress
from synthetic import XL, case, step

GPU = [("NVIDIA H200", "GPU-1", "a")]
MODEL = {
    "size": "small", "context": 128, "batch_size": 4, "precision": "fp32", "attention": "naive",
    "exec": "eager", "mode": "train-step", "d_model": 768, "layers": 12, "vocab": 10000, "ranks": 1,
    "recompute": "none",
}  # fmt: skip
PHASES = {"forward": 0.3, "backward": 0.6, "step": 1.0}
NEW = "2026-11-22T00:00:00Z"


def timed(seconds, **factors):
    return case(MODEL | factors, {name: [[part * seconds] * 6] for name, part in PHASES.items()})


@pytest.fixture
def pool(make_file):
    """pool(("a.h5", [case(...)], {"command": ...}), ...): the cases of these files."""

    def of(*files, machine=""):
        paths = [
            make_file(cases, name, **{"ranks": GPU} | attributes)
            for name, cases, attributes in files
        ]
        return pool_of([results for path in paths for results in load([path])], machine)

    return of


def first(found, preset="sizes"):
    lead = leading(found.of("model", preset), preset)
    return lead.run.name, lead.number("step_median_s")


def test_the_preset_s_own_file_is_before_a_newer_one(pool):
    own = ("own.h5", [timed(0.1)], {"command": "paceline model --preset sizes"})
    other = ("other.h5", [timed(0.2)], {"created": NEW})
    assert first(pool(own, other)) == first(pool(other, own)) == ("own.h5", 0.1)


def test_another_preset_whose_name_begins_alike_is_not_its_own(pool):
    alike = ("alike.h5", [timed(0.1)], {"command": "paceline model --preset sizes-long"})
    assert first(pool(alike, ("new.h5", [timed(0.2)], {"created": NEW})))[0] == "new.h5"


def test_the_newer_file_is_before_the_older(pool):
    files = [("old.h5", [timed(0.1)], {}), ("new.h5", [timed(0.2)], {"created": NEW})]
    assert first(pool(*files)) == first(pool(*files[::-1])) == ("new.h5", 0.2)


@pytest.mark.parametrize("observed", [{"profile": 1}, {"memory_timeline": True}])
def test_a_case_that_recorded_more_comes_after_a_plain_one(pool, observed):
    newer = ("newer.h5", [timed(0.2, **observed)], {"created": NEW})
    assert first(pool(newer, ("plain.h5", [timed(0.1)], {})))[0] == "plain.h5"
    assert first(pool(newer))[0] == "newer.h5"


def test_a_memory_limit_comes_after_all_of_the_memory(pool):
    limited = {"command": "paceline model --memory-limit 16GB", "created": NEW}
    whole = ("whole.h5", [timed(0.1)], {})
    assert first(pool(("limited.h5", [timed(0.2)], limited), whole))[0] == "whole.h5"


def test_the_largest_case_answers(pool):
    sizes = [timed(0.3, size="xl", d_model=1600, layers=48, context=context)
             for context in (128, 256)]  # fmt: skip
    found = pool(("a.h5", [timed(0.1, context=1024), *sizes], {}))
    assert leading(found.of("model"), "sizes").at == "xl at context 256"


def test_what_stands_beside_is_of_the_same_file_and_differs_in_the_axes_alone(pool):
    cases = [timed(0.1), timed(0.2, context=256), timed(0.3, context=256, precision="bf16")]
    newer = [timed(0.4), timed(0.5, context=512)]
    found = pool(("a.h5", cases, {"command": "paceline model --preset sizes"}),
                 ("b.h5", newer, {"created": NEW}))  # fmt: skip
    ranked = found.of("model", "sizes")
    lead = leading([one for one in ranked if one.get("precision") == "fp32"], "sizes")
    shown = [(one.get("context"), one.seconds("step")) for one in beside(ranked, lead, "context")]
    assert shown == [("128", 0.1), ("256", 0.2)]
    every = beside(ranked, lead, "context", elsewhere=True)
    assert [one.seconds("step") for one in every] == [0.1, 0.2, 0.5]


def test_the_machine_with_most_cases_answers_alone(pool):
    two = ("two.h5", [timed(0.1), timed(0.2, context=256)], {})
    one = ("one.h5", [timed(0.3)], {"ranks": [("NVIDIA A100", "GPU-2", "b")], "created": NEW})
    assert first(pool(one, two))[0] == "two.h5"
    assert first(pool(one, two, machine="A100"))[0] == "one.h5"
    assert pool(one, two).others == {"NVIDIA A100": 1}


def test_a_case_that_failed_has_no_time(pool):
    failed = timed(0.1) | {"status": "mismatch"}
    (only,) = pool(("a.h5", [failed], {})).cases
    assert np.isnan(only.seconds("step")) and only.number("step_median_s") == 0.1


def test_a_case_that_is_not_ok_has_no_speed_up(make_file):
    cases = [timed(0.2), timed(0.1, precision="bf16") | {"status": "mismatch"}]
    (results,) = load([make_file(cases)])
    (pair,) = pairs.of(results)
    assert np.isnan(pairs.ratio(results, pair, "step").value)


def made(tmp_path, *paths):
    main(["report", *map(str, paths), "--output", str(tmp_path / "r.html")])
    text = (tmp_path / "r.html").read_text("utf-8")
    assert not re.search(r"\bnan\b", re.sub(r"base64,[^\"]+", "", text))
    return text


def test_an_exchange_equal_to_another_is_said_to_be(make_file, tmp_path):
    cases = [step("none", 0.1), step("naive", 0.2), step("flat", 0.1505), step("overlap", 0.15)]
    text = made(tmp_path, make_file(cases, experiment="ddp"))
    told = "A step of xl on 2 ranks takes 150 ms with overlap, 25.0% less than one by one, "
    assert told + "equal within intervals to flat." in text
    assert "no exchange takes 100 ms" in text


def test_a_file_that_cannot_be_read_does_not_stop_the_others(good, tmp_path):
    bad = tmp_path / "bad.h5"
    bad.write_bytes(good.read_bytes()[:2000])
    text = made(tmp_path, good, bad)
    assert 'class="card"' in text and re.search(r"Not read: \S+bad\.h5: cannot be read", text)


def test_a_file_alone_that_cannot_be_read_is_refused(good, tmp_path, refused):
    good.write_bytes(good.read_bytes()[:2000])
    assert "cannot be read" in refused("report", good, "--output", tmp_path / "r.html")


@pytest.mark.parametrize("experiment", ["ddp", "zero", "attention", "collectives", "model"])
def test_a_file_of_cases_out_of_memory_has_no_cards(make_file, tmp_path, experiment):
    factors = XL | {"sync": "flat", "shard": "zero1", "op": "all_reduce", "attention": "naive"}
    lost = case(factors, status="oom", reason="no memory")
    text = made(tmp_path, make_file([lost], experiment=experiment))
    assert 'class="card"' not in text and "Not answered by these files" in text


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e9])
def test_extreme_times_have_short_figures(make_file, tmp_path, scale):
    text = made(tmp_path, make_file([timed(scale)]))
    numbers = re.findall(r'class="number">([^<]+)<', text)
    assert numbers and all(len(number) <= 16 for number in numbers)


def test_samples_may_be_missing(make_file, tmp_path):
    path = make_file([timed(0.1)])
    with h5py.File(path, "r+") as file:
        del file["cases/case-000/samples"]
    assert "A step of small at context 128 takes 30.0 ms forward" in made(tmp_path, path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda table: table[["case"]], "sweep.h5: profiled/kernels/rank is missing"),
        (lambda table: table.assign(total="long"), "profiled/kernels/total has texts for numbers"),
    ],
)
def test_a_question_whose_data_is_odd_is_named_with_the_reason(make_file, change, says):
    """A table as no version of the program writes it."""
    (results,) = load([make_file([timed(0.1)], command="paceline model --preset profile")])
    del results.frame["d_model"]
    table = results.frame[["case"]].assign(rank=0, total=0.1, phase="forward", operation="matmul")
    results.file_tables["profiled/kernels"] = change(table)
    whole = report.of([results])
    answered = [question.name for question, _ in whole.answered]
    assert "passes" in answered and "kernels" not in answered
    page = report.page(whole, {})
    assert re.search(rf"<li>Which kernels take the time\? Odd data: [^<]*{says}[^<]*</li>", page)
    assert page.count("Odd data") == 1


def test_a_figure_whose_data_is_odd_is_named_with_the_reason(make_file, monkeypatch):
    def refuse(*_):
        raise ResultError("sweep.h5: /cases/a/trace/spans/begin has nan")

    monkeypatch.setattr(figures, "of", refuse)
    whole = report.of(load([make_file([timed(0.1)])]))
    page = report.page(whole, report.draw(whole.drawings, Progress()))
    assert "<img" not in page and 'class="card"' in page
    assert page.count("<li>Figure steps: sweep.h5: /cases/a/trace/spans/begin has nan</li>") > 0


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"step": ["first"], "peak": [1.0], "active": [1.0]}, "memory/mark is missing"),
        (
            {"step": ["first"], "mark": ["after step"], "peak": [1.0], "active": [1.0],
             "gradient": ["many"]},
            "memory/gradient has texts for numbers",
        ),
    ],
)  # fmt: skip
def test_marks_of_an_odd_table_are_not_drawn(make_file, columns, says):
    (results,) = load([make_file([timed(0.1)])])
    results.case_tables[0]["memory"] = pd.DataFrame(columns)
    assert says in str(report.svg(Drawing(results, "memory-marks")))


def test_odd_data_beside_the_write_ups_is_named_with_the_reason(pool):
    def refuse(*_):
        raise ResultError("sweep.h5: dtypes/fp16 is missing")

    rows = published.read("timing")
    comparison = replace(published.COMPARISONS[0], find=refuse)
    table = published.table(pool(("a.h5", [timed(0.1)], {})), comparison, "ours", rows)
    assert table.rows == []
    assert table.caption[0].endswith("do not. Odd data: sweep.h5: dtypes/fp16 is missing.")


@pytest.mark.parametrize("place", ["question", "figure"])
def test_a_fault_of_ours_is_not_taken_for_odd_data(make_file, tmp_path, monkeypatch, capsys, place):
    def fault(*_):
        raise KeyError("step")

    if place == "figure":
        monkeypatch.setattr(figures, "of", fault)
    else:
        monkeypatch.setattr(report, "QUESTIONS", [replace(QUESTIONS[0], answer=fault)])
    with pytest.raises(SystemExit) as stopped:
        made(tmp_path, make_file([timed(0.1)]))
    assert stopped.value.code == 7
    assert "KeyError: 'step'" in capsys.readouterr().err


def test_progress_is_told_after_two_seconds(capsys):
    progress = Progress()
    progress.line("early")
    Progress(begun=progress.begun - 3).line("12 of 48 files read")
    assert capsys.readouterr().err == "analysis: 12 of 48 files read\n"
