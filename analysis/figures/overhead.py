"""The figure of bucket sizes: exposed communication, measured and predicted from the fit."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from .. import style
from ..layout import Sheet
from ..panels import Grid, Series, draw_points, log_axes, plain
from ..results import Results

WIDTH, HEIGHT = 6.4, 3.0  # inches
MILLISECONDS = 1e3
MEASURED = Series("measured: exposed communication", [], style.SERIES[1], "o")
PREDICTED = Series("predicted: n latency + bucket / bandwidth", [], style.SERIES[0], "s")


def draw(results: Results) -> Figure | None:
    """None without ddp --predict."""
    table = results.file_tables.get("predict")
    if table is None:
        return None
    names = ("median", "ci_low", "ci_high")
    keys = [name for name in ("file", "case") if name in table]
    measured = {name: results.statistic("communication_exposed", name) for name in names}
    cases = results.frame[keys].assign(**measured)
    table = table[table["bucket_mb"] > 0].merge(cases, on=keys, how="left")
    table = table.sort_values("bucket_mb")
    predicted = table["predicted_overhead_s"].to_numpy() * MILLISECONDS
    median, low, high = (table[name].to_numpy() * MILLISECONDS for name in names)
    grid = Grid(1, 1, WIDTH, HEIGHT)
    best = table["predicted_best_bucket_mb"].iloc[0]
    sheet = Sheet(
        results,
        title="Exposed communication by bucket size",
        notes=[
            "Prediction: n latency + s / (n bandwidth), least at "
            f"{plain(float(f'{best:.3g}'))} MB. Below each size: the number of buckets."
        ],
        body=grid.body,
        legend=[(one.label, one.color, one.marker) for one in (MEASURED, PREDICTED)],
    )
    axes = grid.axes(sheet, 0, 0, "", "")
    sizes = table["bucket_mb"].to_numpy()
    log_axes(axes, sizes, np.concatenate([predicted, low, median, high]))
    none = np.full(len(sizes), np.nan)
    draw_points(axes, PREDICTED, sizes, predicted, none, none, joined=False)
    draw_points(axes, MEASURED, sizes, median, low, high, joined=False)
    counts = dict(zip(sizes, table["buckets"], strict=True))
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(
        lambda value, _: f"{plain(value)}\n{counts.get(value, 0):g} buckets"
    )
    axes.set_ylabel("time (ms)")
    axes.set_xlabel("most MB in a bucket")
    return sheet.figure
