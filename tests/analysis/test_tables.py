"""The tables: figures, units, intervals, and the status of cases without figures."""

import csv
import io

import h5py
import pandas as pd
import pytest
from markdown_text import markdown_rows

from analysis.formatting import figure
from analysis.result_file import ResultError
from analysis.results import load
from analysis.tables import cases, formats, recorded
from analysis.tables.spread import Spread
from analysis.tables.table import interval
from synthetic import case

# Ten samples 10, 11, ..., 19 ms: the median is 14.5 ms; the bounds of the interval are the values
# of rank ceil((10 - 6.198) / 2) = 2 and ceil(1 + (10 + 6.198) / 2) = 10.
TEN = [[0.010, 0.015, 0.011, 0.016, 0.012, 0.017, 0.013, 0.018, 0.014, 0.019]]
# Two ranks. The maxima over ranks are 2, 4, 4, 4, 4 and 6 ms.
TWO_RANKS = [[0.001, 0.002, 0.002, 0.002, 0.003, 0.006], [0.002, 0.004, 0.004, 0.004, 0.004, 0.001]]
SMALL = {"size": "small", "d_model": 768, "layers": 12}
XL = {"size": "xl", "d_model": 1600, "layers": 48}


def shared(**more):
    return {
        "batch_size": 4,
        "precision": "fp32",
        "learning_rate": 0.001,
        "deterministic": False,
    } | more


@pytest.fixture
def sweep(make_file):
    """Two sizes by two contexts; the last case ran out of memory."""
    step = {"forward": TEN, "step": TEN}
    rates = {"tokens_per_s": 35310.4, "mfu_measured": 0.4115, "peak_bytes": 3 * 2**30 // 2}
    none = {"tokens_per_s": float("nan"), "mfu_measured": float("nan"), "peak_bytes": 2**34}
    return make_file(
        [
            case(SMALL | shared(context=128), step, summary=rates),
            case(SMALL | shared(context=256), {"step": TWO_RANKS}, summary=rates),
            case(XL | shared(context=128), {"forward": TEN, "step": [[2.5]]}, summary=rates),
            case(
                XL | shared(context=256), status="oom", reason="17.2 GB_of 50% & more", summary=none
            ),
        ],
        command="build/paceline model --size small,xl --tokens my_tokens.h5",
    )


def test_chosen_columns_follow_the_varying_factors(sweep):
    (results,) = load([sweep])
    (table,) = cases.of_columns(results, ["status", "peak_bytes", "step_p95_s", "context"])
    assert table.header == ["size", "status", "peak (MiB)", "step p95 (s)", "context"]
    assert table.rows[0] == ["small", "ok", "1,536", "0.019", "128"]
    assert table.rows[3][:3] == ["xl", "oom", "16,384"]
    (header, first, *_) = csv.reader(io.StringIO(formats.csv(table)))
    assert header[-3:] == ["status", "peak_bytes", "step_p95_s"]
    assert first[header.index("context")] == "128"
    with pytest.raises(ResultError, match=r"no column 'peak_byte' \(did you mean peak_bytes\?\)"):
        cases.of_columns(results, ["peak_byte"])


def of_cases(results):
    (table,) = cases.build(results, Spread.INTERVAL)
    return table


def markdown(results):
    return formats.markdown(of_cases(results))


def latex(results):
    return formats.latex(of_cases(results))


def csv_text(results):
    return formats.csv(of_cases(results))


def test_markdown_has_a_row_per_case_with_units_and_intervals(sweep):
    header, rule, *rows = markdown_rows(markdown(load([sweep])[0]))
    assert header == [
        "size", "context", "forward (ms)", "step (ms)", "tokens/s", "MFU, measured (%)",
        "peak memory (GiB)", "status",
    ]  # fmt: skip
    assert rows == [
        ["small", "128", "14.50 [11.00, 18.00]", "14.50 [11.00, 18.00]", "35,310", "41.15",
         "1.500", "ok"],
        ["small", "256", "–", "4.000 [2.000, 6.000]", "35,310", "41.15", "1.500", "ok"],
        ["xl", "128", "14.50 [11.00, 18.00]", "2,500", "35,310", "41.15", "1.500", "ok"],
        ["xl", "256", "–", "–", "–", "–", "16.00", "oom: 17.2 GB_of 50% & more"],
    ]  # fmt: skip
    assert [cell[-1] for cell in rule] == ["-", ":", ":", ":", ":", ":", ":", "-"]


def test_the_caption_names_constant_factors_and_the_source(sweep):
    words = markdown(load([sweep])[0])
    caption = words.splitlines()[2]
    assert "n = 1 to 10 repetitions" in caption
    assert "too few repetitions (below 6)" in caption
    assert (
        "In every case: batch size 4, precision fp32, deterministic false, learning rate 0.001."
        in caption
    )
    assert "Sizes: small is d_model 768, layers 12; xl is d_model 1600, layers 48." in caption
    assert "sweep.h5: paceline 0123456789ab, 2026-11-21T02:05:31Z, AMD EPYC." in caption
    assert "    build/paceline model --size small,xl --tokens my_tokens.h5" in words.splitlines()
    assert words.count("fp32") == 1


WIDTHS = [{"size": "custom", "d_model": width, "layers": 2} for width in (64, 128)]


@pytest.mark.parametrize(
    ("factors", "header", "first"),
    [
        ([SMALL], ["step (ms)"], []),
        ([SMALL | {"context": c} for c in (64, 128)], ["context", "step (ms)"], ["64"]),
        (WIDTHS, ["d_model", "step (ms)"], ["64"]),
    ],
    ids=["one case", "one factor varies", "one size has several widths"],
)
def test_columns_of_factors_and_status_are_those_that_vary(make_file, factors, header, first):
    path = make_file([case(one, {"step": TEN}) for one in factors])
    found, _, row, *_ = markdown_rows(markdown(load([path])[0]))
    assert (found, row) == (header, [*first, "14.50 [11.00, 18.00]"])


def test_markdown_keeps_pipes_out_of_its_columns(make_file):
    path = make_file([case(SMALL, status="skipped", reason="a|b")])
    assert r"skipped: a\|b" in markdown(load([path])[0])


def test_latex_escapes_special_characters(sweep):
    words = latex(load([sweep])[0])
    assert r"oom: 17.2 GB\_of 50\% \& more \\" in words
    assert r"\texttt{build/paceline model --size small,xl --tokens my\_tokens.h5}" in words
    assert r"Sizes: small is d\_model 768, layers 12;" in words
    assert r"MFU, measured (\%)" in words
    assert r"\begin{tabular}{lrrrrrrl}" in words
    body = words.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == 4
    assert all(line.count(" & ") == 7 and line.endswith(r" \\") for line in body)
    assert formats.escape_latex(r"\a{b}~^#$<") == (
        r"\textbackslash{}a\{b\}\textasciitilde{}\textasciicircum{}\#\$\textless{}"
    )


def test_a_sweep_without_one_measured_case_says_so(make_file):
    path = make_file([case(SMALL, status="skipped", reason="no GPU")])
    words = markdown(load([path])[0])
    assert words.splitlines()[2].startswith("No case was measured.")
    assert markdown_rows(words)[0] == ["status"]


def test_memory_that_was_only_predicted_is_in_the_units_of_measured_memory(make_file):
    predicted = {"predicted_peak_bytes": 3.0 * 2**30, "predicted_saved_bytes": 3.0 * 2**20}
    lost = [case(SMALL | {"context": n}, status="oom", summary=predicted) for n in (128, 256)]
    shown = of_cases(load([make_file(lost)])[0])
    assert shown.header == ["context", "predicted saved (MiB)", "predicted peak (GiB)", "status"]
    assert shown.rows == [["128", "3.000", "3.000", "oom"], ["256", "3.000", "3.000", "oom"]]


def test_csv_has_all_columns_and_exact_values(sweep):
    rows = list(csv.DictReader(io.StringIO(csv_text(load([sweep])[0]))))
    assert [row["size"] for row in rows] == ["small", "small", "xl", "xl"]
    assert [row["d_model"] for row in rows] == ["768", "768", "1600", "1600"]
    assert {row["precision"] for row in rows} == {"fp32"}
    first, second, third, last = rows
    assert float(first["forward_median_s"]) == pytest.approx(0.0145, rel=1e-15)
    assert float(first["forward_ci_low_s"]) == 0.011
    assert float(first["forward_ci_high_s"]) == 0.018
    assert float(second["step_median_s"]) == 0.004
    assert float(third["step_median_s"]) == 2.5
    assert third["step_ci_low_s"] == ""
    assert (float(first["tokens_per_s"]), float(first["mfu_measured"])) == (35310.4, 0.4115)
    assert (first["peak_bytes"], last["peak_bytes"]) == (str(3 * 2**29), str(2**34))
    assert (last["status"], last["reason"]) == ("oom", "17.2 GB_of 50% & more")
    assert last["forward_median_s"] == last["step_median_s"] == last["tokens_per_s"] == ""


def test_cases_of_two_files_are_in_adjacent_rows(make_file):
    def one(context, seconds):
        return case(SMALL | {"context": context}, {"step": [[seconds] * 6]})

    before = make_file([one(128, 0.2), one(256, 0.4)], "before.h5", command="first")
    after = make_file([one(128, 0.1), one(256, 0.3)], "after.h5", command="second", complete=False)
    words = markdown(load([before, after])[0])
    header, _, *rows = markdown_rows(words)
    assert header == ["context", "file", "step (ms)"]
    assert [row[:2] for row in rows] == [
        ["128", "before"], ["128", "after"], ["256", "before"], ["256", "after"],
    ]  # fmt: skip
    assert rows[1][2] == "100.0 [100.0, 100.0]"
    assert "    first\n    second\n" in words
    assert words.count("The sweep was not completed.") == 1


@pytest.mark.parametrize(
    ("unit", "value"), [("s", 0.0145), ("ms", 14.5), ("us", 14500.0), ("ns", 14500000.0)]
)
def test_times_are_converted_from_the_unit_in_the_file(make_file, unit, value):
    path = make_file([case(SMALL, {"step": TEN})])
    with h5py.File(path, "r+") as file:
        column = file["summary/step_median_s"]
        column[:] = value
        column.attrs["unit"] = unit
    assert load([path])[0].frame["step_median_s"].iloc[0] == pytest.approx(0.0145, rel=1e-12)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([("AMD EPYC", "", "node1")] * 3, "AMD EPYC"),
        ([("AMD EPYC", "", host) for host in ("node1", "node2", "node1")], "2 × AMD EPYC"),
        ([("NVIDIA H200", f"GPU-{i}", "node1") for i in (1, 2)], "2 × NVIDIA H200"),
        ([("NVIDIA H200", f"GPU-{i}", f"node{i % 2}") for i in range(4)], "4 × NVIDIA H200"),
        ([("NVIDIA H200", "GPU-1", "node1")] * 2, "NVIDIA H200"),
        (
            [("NVIDIA H200", "GPU-1", "node1"), ("NVIDIA A100", "GPU-2", "node1")],
            "NVIDIA A100, NVIDIA H200",
        ),
    ],
)
def test_the_caption_counts_each_device_once(make_file, ranks, words):
    path = make_file([case(SMALL, {"step": TEN})], ranks=ranks)
    caption = markdown(load([path])[0]).splitlines()[2]
    assert caption.endswith(f"2026-11-21T02:05:31Z, {words}.")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"), (0.04409, "0.04409"), (9.9996, "10.00"), (21.5678, "21.57"),
        (1234.5, "1,234"), (1234567.0, "1,234,567"), (float("nan"), "–"),
    ],
)  # fmt: skip
def test_figures_have_four_digits_and_no_exponent(value, words):
    assert figure(value) == words


@pytest.mark.parametrize("digits", [3, 4])
@pytest.mark.parametrize("power", [0.001, 1.0, 10.0, 1000.0])
def test_figures_around_a_power_of_ten_have_the_same_digits(digits, power):
    below = power * (1 - 0.4 * 10.0**-digits)  # rounds up to the power
    assert figure(below, digits) == figure(power, digits) == figure(-below, digits).lstrip("-")


def test_an_interval_has_the_decimals_of_its_median():
    assert interval(9.9996, 9.994, 10.004) == "10.00 [9.99, 10.00]"


def test_counts_of_flops_and_their_ratio_have_units():
    flops = recorded.column("profile/softmax", "products_flops", pd.Series([1.00663296e10]))
    assert (flops.header, flops.cells) == ("products (GFLOP)", ["10.07"])
    ratio = recorded.column("profile/softmax", "flops_ratio", pd.Series([0.01953125]))
    assert (ratio.header, ratio.cells) == ("flops ratio (%)", ["1.953"])
