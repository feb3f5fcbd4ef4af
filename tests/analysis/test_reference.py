"""For every file in results/reference/, tables and figures agree with the values in the file."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

from analysis import figures, scaling_cases, tables
from analysis.figures import scaling
from analysis.formatting import figure
from analysis.result_file import opened, stem
from analysis.results import load
from analysis.tables import WRITERS, cases
from analysis.tables import scaling as scaling_table
from conftest import ROOT
from legibility import assert_legible
from reference_figures import FILES, REFERENCE, figure_of, figures_of, raw, reference, results_of

PEERS = {"peers", "predicted-memory"}
MEASURED_STEPS = {"steps", "predicted-memory", "memory-marks", "warmup"}
PROFILED = {"streams", "block", "attention-kernels"}
ATTENTION = {"attention-time", "attention-throughput", "attention-memory", "predicted-memory"}
# The names of the figures, and the files that have them.
FILES_WITH = (
    (MEASURED_STEPS, """
     ddp-buckets-no-p2p-h100 ddp-course-h100 ddp-course-h200 ddp-long-h100 model-batches-h200
     model-checkpointing-h200 model-sizes-h200 model-warmup-h200 strong-ddp-1-h200
     strong-ddp-2-h200 strong-ddp-4-h200 zero-fsdp-h100 zero-course-h100 zero-course-h200"""),
    (MEASURED_STEPS | {"speedups"}, """
     ddp-context-h200 model-compile-512-h200 model-compile-h200 model-flash-h200
     model-memory-h200 model-precision-h200 weak-ddp-1-h200 weak-ddp-2-h200 weak-ddp-4-h200
     weak-zero-2-h200 weak-zero-4-h200"""),
    (MEASURED_STEPS | {"overhead"}, "ddp-predict-h200"),
    (MEASURED_STEPS | {"memory"}, "model-memory-timeline-h200"),
    (MEASURED_STEPS | PROFILED, "ddp-profile-h200 model-profile-sizes-h200"),
    (MEASURED_STEPS | PROFILED | {"speedups"}, "model-profile-h200"),
    (ATTENTION, "attention-flash4-h200 attention-leaderboard-h200 attention-peers-h200"),
    (ATTENTION | {"attention-speedup"}, "attention-pytorch-16gb-h200 attention-pytorch-h200"),
    (ATTENTION | {"attention-speedup", "attention-precision"}, """
     attention-flash-benchmark-16gb-h200 attention-flash-benchmark-h200"""),
    ({"collectives"}, """
     collective-peers-h200 collectives-2-h200 collectives-4-h200 collectives-single-node-h200
     collectives-symmetric-h200"""),
    (PEERS, """
     data-parallel-peers-h200 model-compile-peers-h200 model-compile-peers-modes-h200"""),
    (PEERS | {"warmup"}, "peers-h200 peers-variants-h200"),
    ({"accumulation", "norms"}, "precision-course-h200"),
    (set(), "plan-check-ddp-course-h200 plan-xl-h200 plan-xxl"),
)  # fmt: skip
EXPECTED = {name: drawn for drawn, names in FILES_WITH for name in names.split()}


def smallest(path):
    """Whether no smaller file has the same figures. Those of profiles, whose files are large, are
    drawn by test_figures_are_legible."""
    drawn = EXPECTED.get(stem(path))
    alike = [other for other in FILES if EXPECTED.get(stem(other)) == drawn]
    profiled = drawn is not None and drawn >= PROFILED
    return not profiled and path == min(alike, key=lambda other: other.stat().st_size)


# Of files with the same figures, make test takes the smallest and make test-long the others.
LIKE_OTHERS_LONG = [
    pytest.param(path, marks=() if smallest(path) else pytest.mark.long) for path in FILES
]
UNTIMED = ("precision", "plan")
TIMED = [one for one in LIKE_OTHERS_LONG if not one.values[0].name.startswith(UNTIMED)]
# Files of schema version 1. Those of ddp, zero and collectives are among the published ones.
SCHEMA_1 = sorted((ROOT / "tests/golden").glob("*-schema1.h5.xz"))


def ids(path):
    return stem(path)


@pytest.mark.parametrize("path", LIKE_OTHERS_LONG, ids=ids)
def test_every_case_has_a_row_in_every_format(path):
    found = tables.of(results_of(path))
    for table in found:
        texts = {form: write(table) for form, write in WRITERS.items()}
        rows = list(csv.DictReader(io.StringIO(texts["csv"])))
        count = len([line for line in texts["markdown"].splitlines() if line.startswith("|")]) - 2
        body = texts["latex"].split(r"\midrule")[1].split(r"\bottomrule")[0].strip()
        assert len(rows) >= count == len(body.splitlines()) > 0
        assert len(rows) == count or table.name.startswith("profiled-")  # of which rank 0 is shown
        assert all(line.count(" & ") == len(table.columns) - 1 for line in body.splitlines())
    is_plan = "section" in raw(path)  # its first table has the plan as a whole
    assert len(found[0].rows) == (1 if is_plan else len(raw(path)))


@pytest.mark.parametrize("spread", tables.Spread)
@pytest.mark.parametrize("path", [*TIMED, *SCHEMA_1], ids=ids)
def test_csv_has_the_exact_figures_of_the_file(path, spread):
    expected = raw(path)
    (written,) = (table.data for table in cases.build(results_of(path), spread))
    phases = [name.removesuffix("_median_s") for name in expected if name.endswith("_median_s")]
    phases = [phase for phase in phases if expected[f"{phase}_median_s"].notna().any()]
    assert phases
    names = [f"{phase}_{one}_s" for phase in phases for one in spread.statistics]
    names += [name for name in expected if name.endswith(("_bytes", "_per_s"))]
    for name in names:
        if name in expected and name != "model_tflops_per_s":
            want = expected[name].astype(float).to_numpy()
            np.testing.assert_array_equal(np.sort(written[name].to_numpy(float)), np.sort(want))


@pytest.mark.parametrize("name", ["model-sizes", "model-flash", "model-compile-peers"])
def test_mfu_counts_half_of_causal_attention_and_never_exceeds_its_ceiling(name):
    """Recomputed from the median steps, also of files that counted the whole T x T matrix."""
    frame = results_of(reference(name)).frame
    rows, d, f = frame["batch_size"] * frame["context"], frame["d_model"], frame["d_ff"]
    forward = 2 * rows * frame["layers"] * (4 * d**2 + 3 * d * f)
    forward += 2 * rows * d * frame["vocab"] + 2 * rows * frame["layers"] * frame["context"] * d
    rate = forward * (1 + 2 * (frame["mode"] == "train-step")) / frame["step_median_s"] / 1e12
    np.testing.assert_allclose(frame["model_tflops_per_s"], rate, rtol=1e-12)
    for mfu, peak in (("mfu_measured", "gemm_ceiling"), ("mfu_datasheet", "datasheet")):
        known = frame[mfu].notna()
        want = rate / frame[f"{peak}_tflops_per_s"]
        np.testing.assert_allclose(frame[mfu][known], want[known], rtol=1e-12)
        assert (frame[mfu][known] <= 1).all()
        split = frame.get("fp32_attention", pd.Series(index=frame.index)) == "bf16x3"
        assert not (known & split).any()


def test_the_published_files_stay_below_12_megabytes():
    assert sum(path.stat().st_size for path in FILES) < 12e6


@pytest.mark.parametrize("path", LIKE_OTHERS_LONG, ids=ids)
def test_every_figure_is_drawn(path):
    assert set(figures_of(path)) == EXPECTED[stem(path)]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("attention-pytorch", {"attention-speedup"}),
        pytest.param("attention-pytorch", ATTENTION, marks=pytest.mark.long),
        pytest.param("collectives-single-node", {"collectives"}, marks=pytest.mark.long),
        ("collective-peers", {"collectives"}),
        pytest.param("ddp-course", {"steps", "predicted-memory"}, marks=pytest.mark.long),
        ("model-memory-timeline", {"memory"}),
        ("model-precision", {"steps", "speedups", "memory-marks", "warmup"}),
        ("model-profile", PROFILED | {"speedups"}),
        pytest.param("model-warmup", {"warmup"}, marks=pytest.mark.long),
        ("data-parallel-peers", {"peers"}),
        pytest.param("model-compile-peers-modes", {"peers"}, marks=pytest.mark.long),
    ],
)
def test_figures_are_legible(name, kinds):
    for kind in kinds:
        assert_legible(kind, figure_of(reference(name), kind))


@pytest.mark.parametrize("extension", [".svg", ".pdf", ".png"])
def test_writing_a_figure_twice_gives_equal_files(tmp_path, extension):
    drawn = figure_of(reference("collectives-single-node"), "collectives")
    paths = [tmp_path / f"{name}{extension}" for name in "ab"]
    figures.save(drawn, paths)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert len(first) > 5000


# ---- the values in each kind of figure -----------------------------------------------------------


def median_part(samples, phases):
    """Seconds of each phase in the median step: the mean of the two middle steps of ten."""
    steps = samples["step"][:].max(axis=0)
    ranks = samples["step"][:].argmax(axis=0)
    middle = np.argsort(steps, kind="stable")[[4, 5]]
    return {name: np.mean([samples[name][ranks[i], i] for i in middle]) for name in phases}


def test_stacks_add_up_and_mark_exposed_communication():
    path = reference("zero-course")
    drawn = figure_of(path, "steps")
    (axes,) = drawn.axes
    bars = [bar for container in axes.containers for bar in container]
    by_place = {}
    for bar in bars:
        by_place.setdefault(round(bar.get_y(), 3), []).append(bar)
    stacks = [by_place[place] for place in sorted(by_place)]
    words = [one.get_text() for one in drawn.texts]
    with opened(path) as file:
        names = [case.decode() for case in file["summary/case"][:]]
        exposed = file["summary/communication_exposed_median_s"][:]
        for stack, case, seconds in zip(stacks, names, exposed, strict=True):
            phases = ["forward", "backward", "communication_exposed", "optimizer"]
            if "zero1" in case:  # its exposed communication lies within forward and backward
                phases.remove("communication_exposed")
            assert any(one.endswith(f"ms, {figure(1e3 * seconds, 2)} ms exposed") for one in words)
            samples = file["cases"][case]["samples"]
            expected = median_part(samples, phases)
            step = np.median(samples["step"][:].max(axis=0))
            widths = [bar.get_width() for bar in stack]
            np.testing.assert_allclose(widths[: len(phases)], [1e3 * expected[p] for p in phases])
            np.testing.assert_allclose(sum(widths), 1e3 * step)


def test_attention_curves_are_medians_and_intervals():
    path = reference("attention-pytorch")
    axes = figure_of(path, "attention-time").axes[0]  # forward, head dimension 16
    frame = raw(path).query("head_dim == 16").sort_values("context")
    for line, kind in zip(axes.get_lines(), ("naive", "fused"), strict=True):
        of_kind = frame[frame["attention"] == kind]
        np.testing.assert_array_equal(line.get_xdata(), of_kind["context"])
        np.testing.assert_allclose(line.get_ydata(), 1e6 * of_kind["forward_median_s"])
    low, high = np.array([s[:, 1] for c in axes.collections for s in c.get_segments()]).T
    order = pd.concat([frame[frame["attention"] == kind] for kind in ("naive", "fused")])
    np.testing.assert_allclose(low, 1e6 * order["forward_ci_low_s"])
    np.testing.assert_allclose(high, 1e6 * order["forward_ci_high_s"])


@pytest.mark.parametrize(
    "name",
    [pytest.param("attention-flash-benchmark", marks=pytest.mark.long), "attention-pytorch"],
)
def test_attention_memory_is_the_ledger_s_in_the_colours_of_the_times(name):
    path = reference(name)
    time, memory = (figure_of(path, f"attention-{one}").axes for one in ("time", "memory"))
    frame = raw(path)
    kinds = [one for one in ("precision", "attention") if frame[one].nunique() > 1]
    columns = frame["head_dim"].nunique()
    for index, axes in enumerate(memory):
        column = "saved_bytes" if index < columns else "peak_bytes"
        of_panel = frame[frame["head_dim"] == sorted(frame["head_dim"].unique())[index % columns]]
        series = [rows.sort_values("context") for _, rows in of_panel.groupby(kinds)]
        drawn = [(line.get_xdata(), line.get_ydata()) for line in axes.get_lines()]
        assert len(drawn) == len(series)
        for rows in series:
            assert any(
                np.array_equal(x, rows["context"]) and np.allclose(y, rows[column] / 2**20)
                for x, y in drawn
            )
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        colours = [line.get_color() for line in axes.get_lines()]
        assert colours == [line.get_color() for line in time[index].get_lines()]


def test_the_roofline_is_the_lower_of_bandwidth_and_datasheet():
    path = reference("attention-flash-benchmark")
    axes = figure_of(path, "attention-throughput").axes[0]
    frame = raw(path).query("head_dim == 16 and precision == 'bf16' and attention == 'naive'")
    frame = frame.sort_values("context")
    flops = frame["forward_tflops_per_s"] * frame["forward_median_s"]
    roof = axes.get_lines()[0]
    expected = np.minimum(flops / frame["forward_bandwidth_floor_s"], 989.4)
    np.testing.assert_allclose(roof.get_ydata(), expected)
    assert expected.iloc[0] < 989.4 == expected.iloc[-1]


def test_panels_of_a_row_share_their_scale():
    for name in ("attention-time", "attention-throughput", "attention-memory"):
        drawn = figure_of(reference("attention-flash-benchmark"), name)
        rows = {}
        for axes in drawn.axes:
            rows.setdefault(round(axes.get_position().y0, 6), set()).add(axes.get_ylim())
        assert all(len(limits) == 1 for limits in rows.values())
        assert len(rows) == (2 if name == "attention-memory" else 3)


def test_collectives_and_their_fit():
    path = reference("collectives-single-node")
    time, bandwidth = figure_of(path, "collectives").axes
    frame = raw(path).query("status == 'ok'")
    with opened(path) as file:
        fits = {
            (backend.decode(), ranks): (latency, rate)
            for backend, ranks, latency, rate in zip(
                *(file["fit"][name][:] for name in
                  ("backend", "ranks", "latency_s", "bandwidth_bytes_per_s")), strict=True
            )
        }  # fmt: skip
    groups = dict(list(frame.groupby(["backend", "ranks"])))
    points = [line for line in time.get_lines() if len(line.get_xdata()) == 4]
    curves = [line for line in time.get_lines() if len(line.get_xdata()) > 4]
    rates = [line for line in bandwidth.get_lines() if len(line.get_xdata()) == 4]
    assert len(points) == len(curves) == len(groups) == 5
    for (key, group), line, curve, rate in zip(groups.items(), points, curves, rates, strict=True):
        assert line.get_linestyle() == "None"  # only the fit is drawn as a curve
        np.testing.assert_allclose(line.get_ydata(), 1e6 * group["time_median_s"])
        np.testing.assert_allclose(rate.get_ydata(), group["busbw_bytes_per_s"] / 1e9)
        latency, bytes_per_s = fits[key]
        expected = 1e6 * (latency + curve.get_xdata() / bytes_per_s)
        np.testing.assert_allclose(curve.get_ydata(), expected)


def test_speed_ups_have_both_times_and_an_interval():
    path = reference("model-precision")
    drawn = figure_of(path, "speedups")
    words = [one.get_text() for one in drawn.texts]
    frame = raw(path).set_index(["size", "precision"])
    for size in ("small", "medium", "large", "xl", "2.7b"):
        fp32, bf16 = frame.loc[(size, "fp32")], frame.loc[(size, "bf16")]
        ratio = fp32["step_median_s"] / bf16["step_median_s"]
        low = fp32["step_ci_low_s"] / bf16["step_ci_high_s"]
        high = fp32["step_ci_high_s"] / bf16["step_ci_low_s"]
        times = [figure(1e3 * one["step_median_s"], 3) for one in (fp32, bf16)]
        assert f"{times[0]} → {times[1]} ms, {ratio:.2f}× [{low:.2f}, {high:.2f}]" in words
    (axes,) = drawn.axes
    dots = [line.get_xdata()[0] for line in axes.get_lines()]
    np.testing.assert_allclose(np.sort(dots), np.sort(1e3 * frame["step_median_s"]))


def test_weak_scaling_over_three_files():
    """Steps of one rank were measured without an exchange, and are the first of each exchange. A
    file of another setting is left out."""
    paths = [reference(f"weak-ddp-{ranks}") for ranks in (1, 2, 4)]
    parts = [results_of(path) for path in [reference("ddp-course"), *paths]]
    (results,) = scaling_cases.together(parts)
    drawn = scaling.draw(results)
    assert_legible("scaling", drawn)
    alone, *frames = [raw(path) for path in paths]
    steps = [frame.groupby(["size", "exec"], sort=False)["step_median_s"] for frame in frames]
    assert len(drawn.axes) == 2 * len(alone) == 8
    for setting, (_, row) in enumerate(alone.iterrows()):
        time, efficiency = drawn.axes[2 * setting : 2 * setting + 2]
        assert len(time.get_lines()) == 5
        own = [frame.get_group((row["size"], row["exec"])).to_numpy() for frame in steps]
        for index, lines in enumerate(zip(time.get_lines(), efficiency.get_lines(), strict=True)):
            times = np.array([row["step_median_s"], *(one[index] for one in own)])
            np.testing.assert_allclose(lines[0].get_ydata(), 1e3 * times)
            np.testing.assert_allclose(lines[1].get_ydata(), 100 * times[0] / times)
    (table,) = scaling_table.build(results, tables.Spread.INTERVAL)
    assert len(table.rows) == 60


def test_a_transport_that_was_switched_off_is_named():
    (results,) = load([REFERENCE / "ddp-buckets-no-p2p-h100.h5.xz"])
    (run,) = results.runs
    assert run.hardware == "2 × NVIDIA H100 80GB HBM3 with NCCL_P2P_DISABLE=1"
    assert run.command.startswith("NCCL_P2P_DISABLE=1 build/paceline ddp")
