"""The figure of collectives over message size: time and bus bandwidth, with the fit."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..formatting import capitalized
from ..layout import Sheet
from ..panels import MOST, OWN_SCALE, Grid, Series, draw_points, legend, log_axes, plain, series_of
from ..results import Results

ALONG, ROWS = "bytes", "op"
WIDTH, HEIGHT = 4.6, 2.7  # inches
MICROSECONDS, GB = 1e6, 1e9
SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
BINARY = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
MOST_ROWS = MOST // 2  # of two panels


def draw(results: Results) -> Figure | None:
    frame = results.frame
    if ALONG not in frame or ROWS not in frame or "time" not in results.phases:
        return None
    names = [name for name in results.varying if name not in (ALONG, ROWS)]
    series = series_of(frame[results.medians.notna()], names, ALONG)
    ops = list(frame[ROWS].unique())[:MOST_ROWS]
    grid = Grid(len(ops), 2, WIDTH, HEIGHT, OWN_SCALE)
    sheet = Sheet(results, "Collectives over message size", notes(results), grid.body,
                  legend(series))  # fmt: skip
    low, median, high = (
        results.statistic("time", name) for name in ("ci_low", "median", "ci_high")
    )
    # Bus bandwidth is inversely proportional to time.
    factor = bus_bytes(frame).where(frame["ranks"] > 1)  # a single rank uses no bus
    for line, op in enumerate(ops):
        rows = frame[ROWS] == op
        time = grid.axes(sheet, line, 0, op, "time (µs)")
        bandwidth = grid.axes(sheet, line, 1, op, "bus bandwidth (GB/s)")
        for axes, values in (
            (time, tuple(one * MICROSECONDS for one in (low, median, high))),
            (bandwidth, tuple(factor / one / GB for one in (high, median, low))),
        ):
            log_axes(axes, frame[ALONG], np.concatenate([v.to_numpy(float) for v in values]))
            axes.xaxis.set_major_formatter(lambda value, _: size(value))
            if line == len(ops) - 1:
                axes.set_xlabel("message size")
            for one in series:
                own = [row for row in one.rows if rows[row]]
                points = (values[k][own].to_numpy(float) for k in (1, 0, 2))
                draw_points(axes, one, frame[ALONG][own].to_numpy(), *points, joined=False)
        for one in series:
            own = [row for row in one.rows if rows[row]]
            draw_fit(time, bandwidth, results, one, own, factor)
    return sheet.figure


def notes(results: Results) -> Sequence[str]:
    few = " (none below 6)" if results.lacks_intervals else ""
    lines = [f"{capitalized(results.count('repetitions'))}. Bars: 95% intervals{few}."]
    if "fit" in results.file_tables:
        lines.append("Lines: the fit, latency + bytes / bandwidth.")
    if (count := results.frame[ROWS].nunique()) > MOST_ROWS:
        lines.append(f"The first {MOST_ROWS} of {count} operations.")
    if lost := int((results.frame["status"] != "ok").sum()):
        lines.append(f"{lost} cases were not measured.")
    return lines


def bus_bytes(frame: pd.DataFrame) -> pd.Series:
    """The bytes counted by bus bandwidth, by case: for all_reduce 2 (n - 1) / n times the
    message."""
    if "busbw_bytes_per_s" not in frame:
        return pd.Series(np.nan, index=frame.index)
    return frame["busbw_bytes_per_s"] * frame["time_median_s"]


def fit_of(results: Results, row: int) -> tuple[float, float] | None:
    """Latency in seconds and bytes/s of the case's series."""
    fits = results.file_tables.get("fit")
    if fits is None:
        return None
    case = results.frame.iloc[row]
    # Files up to version 72f31b5 name a value in /fit for factors that do not apply to the case.
    shared = [name for name in fits if name in results.factors and case[name] != ""]
    same = (fits[shared] == case[shared]).all(axis=1)
    found = fits[same]
    return tuple(found.iloc[0][["latency_s", "bandwidth_bytes_per_s"]]) if len(found) else None


def draw_fit(
    time: Axes, bandwidth: Axes, results: Results, series: Series, rows: list[int],
    factor: pd.Series,
) -> None:  # fmt: skip
    measured = [row for row in rows if results.medians[row] > 0]
    fit = fit_of(results, measured[0]) if measured else None
    if fit is None:
        return
    latency, rate = fit
    sizes = results.frame[ALONG][measured].to_numpy(float)
    x = np.geomspace(sizes.min(), sizes.max(), 60)
    seconds = latency + x / rate
    share = factor[measured[0]] / sizes[0]  # of a message's bytes on the bus
    style = {"color": series.color, "lw": 0.9, "alpha": 0.8, "zorder": 1}
    time.plot(x, seconds * MICROSECONDS, **style)
    bandwidth.plot(x, share * x / seconds / GB, **style)


def size(value: float) -> str:
    """A size as text: 100 MB, 4 KiB; in decimal units unless three digits of them are not exact and
    binary ones are."""
    unit, name = next(((unit, name) for unit, name in SIZES if value >= unit), SIZES[-1])
    digits = float(f"{value / unit:.3g}")
    if digits * unit != value:
        for binary, binary_name in BINARY:
            if value >= binary and value % binary == 0:
                return f"{plain(value / binary)} {binary_name}"
    return f"{digits:,g} {name}"
