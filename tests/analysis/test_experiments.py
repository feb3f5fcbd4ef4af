"""Tables and figures that results/reference/ does not cover: oom, predictions, sums, bad files."""

import h5py
import numpy as np
import pytest

from analysis import figures, pairs, tables
from analysis.__main__ import main
from analysis.factors import varying
from analysis.results import load
from synthetic import by_turns, case, write_column

TIMES = {"forward": [[1e-3] * 6], "backward": [[2e-3] * 6], "both": [[3e-3] * 6]}
COLLECTIVE = {"op": "all_reduce", "bytes": 1024, "backend": "mpi", "ranks": 2}
OUTPUTS = [("tables", "t.md"), ("figures", "f.svg")]


def attention(context, kind, seconds=None, **more):
    factors = {"context": context, "head_dim": 64, "precision": "fp32", "attention": kind} | more
    if seconds is None:
        return case(factors, status="oom", reason="needs 34.4 GB")
    samples = {phase: np.full((1, 6), seconds) for phase in TIMES}
    summary = {"peak_bytes": 2.0**20 * context, "saved_bytes": 2.0**19 * context}
    return case(factors, samples, summary=summary)


@pytest.fixture
def sweep(make_file):
    """Naive attention runs out of memory at the longest context."""
    return make_file(
        [
            attention(1024, "naive", 4e-3, flash_kernels=""),
            attention(1024, "flash", 1e-3, flash_kernels="newest"),
            attention(2048, "naive", flash_kernels=""),
            attention(2048, "flash", 2e-3, flash_kernels="newest"),
        ],
        experiment="attention",
    )


@pytest.fixture
def overhead(make_file):
    """A file of ddp --predict with two bucket sizes."""
    cases = [
        case(
            {"size": "xl", "sync": "bucketed", "bucket_mb": size, "batch_size": 2},
            {"communication_exposed": [[0.001 * size] * 6], "step": [[0.1] * 6]},
        )
        for size in (1.0, 10.0)
    ]
    path = make_file(cases, experiment="ddp")
    with h5py.File(path, "r+") as file:
        group = file.create_group("predict")
        for name, values in {
            "case": ["case-000", "case-001"],
            "bucket_mb": [1.0, 10.0],
            "buckets": [80, 8],
            "predicted_overhead_s": [0.002, 0.009],
            "predicted_best_bucket_mb": [2.345, 2.345],
        }.items():
            write_column(group, name, values)
    return path


def drawn(path):
    (results,) = load([path])
    return dict(figures.of(results))


def test_out_of_memory_is_a_cross_at_the_case_s_context(sweep):
    found = drawn(sweep)
    for name in ("attention-time", "attention-memory"):
        for axes in found[name].axes:
            (cross,) = [line for line in axes.get_lines() if line.get_marker() == "x"]
            assert list(cross.get_xdata()) == [2048]
            naive = axes.get_lines()[0]
            assert cross.get_color() == naive.get_color()
            assert list(naive.get_xdata()[np.isfinite(naive.get_ydata())]) == [1024]
    assert "×: out of memory" in " ".join(one.get_text() for one in found["attention-time"].texts)


@pytest.fixture
def two_kernels(make_file):
    """Both keep the same memory; flash is faster."""
    rows = [attention(1024, "naive", 4e-3), attention(1024, "flash", 1e-3)]
    return make_file(rows, experiment="attention")


def test_a_kernel_has_one_colour_in_all_figures_of_attention(two_kernels):
    found = drawn(two_kernels)
    naive, other = found["attention-time"].axes[0].get_lines()
    (faster,) = found["attention-speedup"].axes[0].get_lines()
    assert faster.get_color() == other.get_color() != naive.get_color()
    assert faster.get_marker() == other.get_marker()


def test_marks_that_hide_others_are_named(two_kernels):
    words = {
        name: " ".join(one.get_text() for one in figure.texts)
        for name, figure in drawn(two_kernels).items()
    }
    note = "The marks of naive and flash coincide: their values are the same."
    assert [name for name, told in words.items() if note in told] == ["attention-memory"]


def test_speed_up_of_attention_is_drawn_where_both_ran(sweep):
    axes = drawn(sweep)["attention-speedup"].axes[0]
    points = [
        (x, y)
        for line in axes.get_lines()
        if line.get_marker() != "x"
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
        if np.isfinite(y)
    ]
    assert points == [(1024, pytest.approx(4))]


def test_the_row_of_an_oom_case_has_status_and_reason(sweep):
    (results,) = load([sweep])
    rows = tables.of(results)[0].rows
    assert rows[2][-1] == "oom: needs 34.4 GB"
    assert [row[-1] for row in rows if row[1] == "flash"] == ["ok", "ok"]


def test_the_table_of_speed_ups(sweep):
    (results,) = load([sweep])
    table = next(one for one in tables.of(results) if one.name == "speedup-attention")
    assert table.header == ["context", "attention", "phase", "naive (ms)", "this (ms)",
                            "speed-up over naive"]  # fmt: skip
    assert table.rows[0] == ["1024", "flash", "forward", "4.000 [4.000, 4.000]",
                             "1.000 [1.000, 1.000]", "4.000 [4.000, 4.000]"]  # fmt: skip
    assert list(table.data["speed_up"]) == pytest.approx([4, 4, 4])


def test_the_interval_of_a_ratio_divides_opposite_bounds(make_file):
    slow, fast = by_turns(np.arange(10, 20)) / 1e3, by_turns(np.arange(5, 15)) / 1e3
    steps = {"fp32": slow, "bf16": fast}
    cases = [case({"size": "a", "precision": p}, {"step": [s]}) for p, s in steps.items()]
    (results,) = load([make_file(cases)])
    (pair,) = pairs.of(results)
    found = pairs.ratio(results, pair, "step")
    # The interval of ten samples extends from the second to the ninth.
    expected = 14.5 / 9.5, 11 / 13, 18 / 6
    assert (found.value, found.low, found.high) == pytest.approx(expected)
    mean, std = pairs.mean_ratio(results, pair, "step")
    shares = np.std(slow, ddof=1) / 0.0145, np.std(fast, ddof=1) / 0.0095
    assert (mean, std) == pytest.approx((14.5 / 9.5, 14.5 / 9.5 * np.hypot(*shares)))


def test_predicted_and_measured_overhead_are_drawn(overhead):
    (axes,) = drawn(overhead)["overhead"].axes
    predicted, measured = axes.get_lines()
    assert list(predicted.get_ydata()) == pytest.approx([2, 9])
    assert list(measured.get_ydata()) == pytest.approx([1, 10])
    assert predicted.get_linestyle() == measured.get_linestyle() == "None"
    axes.figure.canvas.draw()
    ticks = [tick.get_text() for tick in axes.get_xticklabels()]
    assert ticks == ["1\n80 buckets", "10\n8 buckets"]


def test_predictions_table_has_cases_and_units(overhead):
    (results,) = load([overhead])
    table = next(one for one in tables.of(results) if one.name == "predict")
    assert "predicted overhead (ms)" in table.header
    assert table.rows[0][table.header.index("predicted overhead (ms)")] == "2.000"
    assert table.rows[0][table.header.index("case")] == "bucket MB 1"


def test_accumulation_figure_shows_errors_and_sums(paceline, tmp_path):
    done = paceline("precision", "--study", "accumulation", "--quiet", "--output", "a.h5")
    assert done.code == 0, done.err
    path = tmp_path / "a.h5"
    figure = drawn(path)["accumulation"]
    with h5py.File(path) as file:
        errors = np.abs(file["summary/sum_error"][:])
        sums = file["summary/sum"][:]
    (axes,) = figure.axes
    points = [line.get_xdata()[0] for line in axes.get_lines()]
    assert points == pytest.approx(np.maximum(errors, 1e-9))
    words = [one.get_text() for one in figure.texts]
    assert f"{sums[1]:.5f} for 10.00" in words


def test_one_command_reads_files_of_several_experiments(sweep, make_file, tmp_path):
    model = make_file([case({"size": "small"}, {"step": [[0.1] * 6]})], "model.h5")
    files = [str(path) for path in (sweep, model)]
    main(["tables", *files, "--output", str(tmp_path / "t.md")])
    words = (tmp_path / "t.md").read_text("utf-8")
    assert "## Cases of attention" in words and "## Cases of model" in words
    main(["figures", *files, "--output", str(tmp_path / "folder")])
    names = {path.name for path in (tmp_path / "folder").glob("*.svg")}
    assert {"attention-attention-time.svg", "model-steps.svg"} <= names


def test_csv_has_a_file_per_table(sweep, tmp_path, capsys):
    main(["tables", str(sweep), "--output", str(tmp_path / "t.csv")])
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/t.csv", f"{tmp_path}/t-speedup-attention.csv",
    ]  # fmt: skip


def test_means_with_deviations(make_file, tmp_path):
    path = make_file([case({"size": "a"}, {"step": [[0.010, 0.011, 0.012]]})])
    main(["tables", str(path), "--spread", "std", "--output", str(tmp_path / "t.md")])
    assert "11.00 ± 1.00" in (tmp_path / "t.md").read_text("utf-8")


@pytest.mark.parametrize(("verb", "name"), OUTPUTS)
@pytest.mark.parametrize("experiment", ["ddp", "zero", "attention", "collectives", "precision"])
def test_a_sweep_without_measured_cases_is_shown_or_refused(
    make_file, tmp_path, capsys, experiment, verb, name
):
    factors = {
        "attention": {"head_dim": 64, "context": 128, "attention": "naive", "precision": "fp32"},
        "collectives": COLLECTIVE,
        "precision": {"study": "norms", "norm": "layer_norm"},
    }.get(experiment, {"size": "xl", "batch_size": 1, "ranks": 2})
    lost = case(factors, status="oom", reason="needs 9 GB")
    path = make_file([lost], experiment=experiment, complete=False)
    try:
        main([verb, str(path), "--output", str(tmp_path / name)])
    except SystemExit as stopped:
        assert stopped.code == 2
        assert "nothing to draw" in capsys.readouterr().err
    else:
        assert (tmp_path / name).stat().st_size > 0


ROW = '{"software": "paceline", "variant": "eager", "size": "xl", "context": 8, '
ROW += '"batch_size": 4, "status": "%s", "step_median_s": %s}\n'
GOOD = ROW % ("ok", 0.1) + ROW % ("oom", "NaN")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no rows of bench/peers/"), ("{", "line 1: is not JSON"),
        ("[1]\n", "line 1: is not an object"), ('{"a": 1}\n', "has no rows of bench/peers/"),
        (GOOD + ROW % ("ok", "NaN"), "line 3: step_median_s is NaN"),
        (GOOD + ROW % ("ok", "-1"), "line 3: step_median_s is -1"),
        (GOOD + ROW % ("ok", "Infinity"), "line 3: step_median_s is inf"),
        (GOOD + ROW % ("ok", '"fast"'), "line 3: step_median_s is fast"),
    ],
)  # fmt: skip
def test_jsonl_files_that_are_no_rows_are_refused(tmp_path, refused, text, says):
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    said = refused("tables", path, "--output", tmp_path / "t.md")
    assert said.startswith(f"{path}: {says}")


def test_a_factor_implied_by_another_is_not_varying(sweep):
    (results,) = load([sweep])
    assert results.varying == ["context", "attention"]  # not flash_kernels
    both = results.frame.assign(flash_kernels=["", "newest", "", "sm80"])
    assert varying(both, results.factors) == ["context", "attention", "flash_kernels"]


@pytest.mark.parametrize(("verb", "name"), OUTPUTS)
@pytest.mark.parametrize("group", ["fit", "predict", "memory", "memory/timeline", "memory/blocks"])
def test_a_group_without_its_columns_is_ignored_or_refused(
    make_file, tmp_path, capsys, group, verb, name
):
    path = make_file([case(COLLECTIVE, {"time": [[1e-3] * 6]})], experiment="collectives")
    with h5py.File(path, "r+") as file:
        place = file["cases/case-000"] if group.startswith("memory") else file
        write_column(place.create_group(group), "other", [1.0])
    output = tmp_path / name
    try:
        main([verb, str(path), "--output", str(output)])
        assert output.stat().st_size > 0
    except SystemExit as stopped:
        assert stopped.code == 2
        message = capsys.readouterr().err
        assert message.startswith(f"analysis: {path}: ") and message.count("\n") == 1


@pytest.mark.parametrize(("verb", "name"), OUTPUTS)
def test_a_fit_whose_time_does_not_grow_with_bytes(make_file, tmp_path, verb, name):
    path = make_file([case(COLLECTIVE, {"time": [[1e-3] * 6]})], experiment="collectives")
    fit = {"backend": "mpi", "op": "all_reduce", "dtype": "float32", "redop": "sum"}
    fit |= {"in_place": "no", "registration": "none", "cadence": "barrier", "cache": "warm"}
    fit |= {"ranks": 2, "latency_s": 1e-3, "bandwidth_bytes_per_s": np.inf}
    with h5py.File(path, "r+") as file:
        group = file.create_group("fit")
        for column, value in (fit | {"worst_relative_error": 0.0}).items():
            write_column(group, column, [value])
    output = tmp_path / name
    main([verb, str(path), "--output", str(output)])
    assert output.stat().st_size > 0
    if verb == "tables":
        assert " inf |" in output.read_text()
