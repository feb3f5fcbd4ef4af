"""The figure of a sweep of all operations, which has factors that some of them lack."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from analysis.figures import collectives
from analysis.results import load
from analysis.tables import cases
from analysis.tables.spread import Spread
from synthetic import case

REFERENCE = Path(__file__).parents[2] / "results/reference"


@pytest.mark.parametrize(
    "name",
    ["collectives-symmetric-h200", pytest.param("collectives-4-h200", marks=pytest.mark.long)],
)
def test_every_series_has_the_curve_of_its_fit(name):
    (results,) = load([REFERENCE / f"{name}.h5.xz"])
    fits = results.file_tables["fit"]
    sizes = results.frame["bytes"].to_numpy(float)
    times = collectives.draw(results).axes[::2]
    operations = results.frame["op"].unique()[: collectives.MOST_ROWS]
    assert len(times) == len(operations)
    for axes, operation in zip(times, operations, strict=True):
        own = fits[fits["op"] == operation]
        curves = [line for line in axes.get_lines() if len(line.get_xdata()) == 60]
        for end, size in ((0, sizes.min()), (-1, sizes.max())):
            expected = 1e6 * (own["latency_s"] + size / own["bandwidth_bytes_per_s"])
            drawn = [curve.get_ydata()[end] for curve in curves]
            np.testing.assert_allclose(sorted(drawn), sorted(expected), err_msg=operation)


@pytest.mark.parametrize(
    ("value", "says"),
    [(400_000_000, "400 MB"), (2_000_000_000, "2 GB"), (128_000, "128 kB"), (2**10, "1 KiB"),
     (3 * 2**20, "3 MiB"), (2**30, "1 GiB"), (1, "1 B"), (1_234_567, "1.23 MB")],
)  # fmt: skip
def test_sizes_are_in_the_units_that_they_are_round_in(value, says):
    assert collectives.size(value) == says


def test_a_single_rank_has_no_bus_bandwidth(make_file):
    """A broadcast to nobody takes no time."""
    rows = [
        case({"op": "broadcast", "bytes": size, "ranks": 1}, {"time": [[1e-6] * 6]},
             summary={"busbw_bytes_per_s": size / 1e-6})
        for size in (1024, 1048576)
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = collectives.draw(load([make_file(rows, experiment="collectives")])[0])
        figure.canvas.draw()
    _, bandwidth = figure.axes
    assert all(np.isnan(line.get_ydata()).all() for line in bandwidth.get_lines())


def test_bandwidths_of_other_software_are_defined_as_ours():
    (results,) = load([REFERENCE / "collective-peers-h200.jsonl"])
    frame = results.frame
    expected = 2 * (frame["ranks"] - 1) / frame["ranks"] * frame["bytes"] / frame["time_median_s"]
    assert {"NCCL bare", "Open MPI bare", "PyTorch gloo"} <= set(frame["variant"])
    np.testing.assert_allclose(frame["busbw_bytes_per_s"], expected, rtol=1e-4)
    _, bandwidth = collectives.draw(results).axes
    drawn = [line for line in bandwidth.get_lines() if np.isfinite(line.get_ydata()).all()]
    assert len(drawn) == len(bandwidth.get_lines())
    (caption,) = (table.caption for table in cases.build(results, Spread.INTERVAL))
    assert "Bus bandwidth is as nccl-tests defines it" in " ".join(caption)
