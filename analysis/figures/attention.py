"""The figures of attention over sequence length: time, throughput under its roofline, memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import pairs, style
from ..formatting import capitalized, label, text
from ..hardware import DATASHEET
from ..layout import Sheet
from ..pairs import Pair
from ..panels import MOST, Grid, Series, draw_lost, draw_points, legend, log_axes, series_of
from ..results import Results

ALONG, COLUMNS = "context", "head_dim"
PHASES = ("forward", "backward", "both")
WIDTH, HEIGHT = 2.55, 1.75  # inches
ROOF = {"color": style.INK, "lw": 0.9, "ls": (0, (1, 1.5)), "zorder": 1}
MIB = 2**20

# Low, middle and high of the quantity in a row of panels, by case.
Values = tuple[pd.Series, pd.Series, pd.Series]


@dataclass(frozen=True)
class Row:
    title: str
    unit: str
    values: Values
    roof: pd.Series | None = None


def draw_time(results: Results) -> Figure | None:
    rows = [
        Row(phase, "time (µs)", tuple(one * 1e6 for one in times(results, phase)))
        for phase in PHASES
        if phase in results.phases
    ]
    few = " (none below 6)" if results.lacks_intervals else ""
    note = f"{capitalized(results.count('repetitions'))}. Bars: 95% intervals{few}."
    return draw(results, "Attention: time over sequence length", rows, [note])


def draw_throughput(results: Results) -> Figure | None:
    rows = [
        Row(phase, "TFLOP/s", throughput(results, phase), roofline(results, phase))
        for phase in PHASES
        if f"{phase}_tflops_per_s" in results.frame
    ]
    peaks = peaks_of(results)
    shown = peaks.groupby(arithmetic_of(results.frame)).max() if np.isfinite(peaks).any() else {}
    named = ", ".join(f"{one} {peak:.4g}" for one, peak in shown.items() if np.isfinite(peak))
    note = "Roofline: FLOPs over the time to copy inputs and outputs"
    note += f", at most the datasheet's dense TFLOP/s: {named}." if named else "."
    return draw(results, "Attention: throughput over sequence length", rows, [note])


def draw_memory(results: Results) -> Figure | None:
    titles = {"saved_bytes": "kept for backward", "peak_bytes": "peak"}
    rows = [
        Row(title, "memory (MiB)", (results.frame[name] / MIB,) * 3)
        for name, title in titles.items()
        if name in results.frame
    ]
    ledger = "the memory ledger"
    counted = f"{ledger}, PyTorch's as its allocator" if "variant" in results.frame else ledger
    note = f"As {counted} counts it."
    return draw(results, "Attention: memory over sequence length", rows, [note])


def draw_speedup(results: Results) -> Figure | None:
    """Of attention."""
    return draw_ratios(results, "attention")


def draw_precision(results: Results) -> Figure | None:
    return draw_ratios(results, "precision")


def draw_ratios(results: Results, factor: str) -> Figure | None:
    found = pairs.of_factor(results, factor)
    rows = [Row(phase, "speed-up (×)", ratios(results, found, phase)) for phase in PHASES]
    if not found or all(row.values[1].isna().all() for row in rows):
        return None
    title = f"Attention: speed-up over {factor} {pairs.BASELINES[factor]}"
    return draw(results, title, rows, ["Bars: ratios of the opposite ends of 95% intervals."])


def ratios(results: Results, found: Sequence[Pair], phase: str) -> Values:
    """Ratios, keyed by the row of the case that is not the baseline."""
    values = {pair.other: pairs.ratio(results, pair, phase) for pair in found}
    index = results.frame.index
    return tuple(
        pd.Series({row: getattr(one, end) for row, one in values.items()}).reindex(index)
        for end in ("low", "value", "high")
    )


def times(results: Results, phase: str) -> Values:
    return tuple(results.statistic(phase, name) for name in ("ci_low", "median", "ci_high"))


def throughput(results: Results, phase: str) -> Values:
    low, median, high = times(results, phase)
    rate = results.frame[f"{phase}_tflops_per_s"]
    return rate * median / high, rate, rate * median / low


def roofline(results: Results, phase: str) -> pd.Series | None:
    """The bound on a case's TFLOP/s."""
    frame = results.frame
    floor = frame.get(f"{phase}_bandwidth_floor_s")
    if floor is None:
        return None
    bandwidth = frame[f"{phase}_tflops_per_s"] * frame[f"{phase}_median_s"] / floor
    return np.minimum(bandwidth, peaks_of(results))


def peaks_of(results: Results) -> pd.Series:
    """The datasheet's dense TFLOP/s for each case; infinite if unknown."""
    frame = results.frame
    devices = {run.hardware for run in results.runs}
    known = DATASHEET.get(devices.pop(), {}) if len(devices) == 1 else {}
    peaks = arithmetic_of(frame).map(known)
    return frame.get("datasheet_tflops_per_s", peaks).fillna(peaks).fillna(np.inf)


def arithmetic_of(frame: pd.DataFrame) -> pd.Series:
    """How the products of each case multiply: in its precision, or as flash attention in fp32."""
    precision = frame.get("precision", pd.Series("", index=frame.index))
    own = frame.get("fp32_attention", precision)
    return precision.where(own.isna() | own.isin(("", "exact")), own)


def draw(results: Results, title: str, rows: Sequence[Row], notes: Sequence[str]) -> Figure | None:
    """A row of panels for each of `rows`, a column for each head dimension; one scale per row."""
    frame = results.frame
    if not rows or ALONG not in frame or COLUMNS not in frame:
        return None
    names = [name for name in results.varying if name not in (ALONG, COLUMNS)]
    shown = (frame["status"] == "oom") | pd.concat(
        [row.values[1] for row in rows], axis=1
    ).notna().any(axis=1)
    series = of_shown(series_of(frame, names, ALONG), shown)
    every = sorted(frame[COLUMNS].unique())
    columns = every[-(MOST // len(rows)) :]
    if len(columns) < len(every):
        notes = [*notes, f"The largest of {len(every)} head dimensions."]
    grid = Grid(len(rows), len(columns), *((WIDTH, HEIGHT) if len(columns) > 1 else (6.0, 2.4)))
    lost = frame["status"] == "oom"
    if lost.any():
        notes = [*notes, "×: out of memory."]
    notes = [*notes, *coinciding(frame, series, rows)]
    sheet = Sheet(results, title, notes, grid.body, legend(series))
    for line, row in enumerate(rows):
        limits = np.concatenate([one.to_numpy(float) for one in row.values])
        for column, value in enumerate(columns):
            here = frame[COLUMNS] == value
            axes = grid.axes(sheet, line, column, f"{label(COLUMNS)} {text(value)}", row.title)
            log_axes(axes, frame[ALONG], limits)
            if row.roof is not None:
                draw_roof(axes, frame[here], row.roof)
            draw_series(axes, frame, series, row, here)
            if column == 0:
                axes.set_ylabel(row.unit)
            else:
                axes.tick_params(labelleft=False)
            if line == len(rows) - 1:
                axes.set_xlabel("sequence length (tokens)")
    return sheet.figure


def of_shown(series: Sequence[Series], shown: pd.Series) -> list[Series]:
    """The shown cases of each series that has any. Series get their colours before this selection,
    so that a kernel has the same colour in every figure of a file."""
    kept = [replace(one, rows=[row for row in one.rows if shown[row]]) for one in series]
    return [one for one in kept if one.rows]


def coinciding(frame: pd.DataFrame, series: Sequence[Series], rows: Sequence[Row]) -> list[str]:
    """A sentence for each set of series with the same points, of which only the last is visible."""
    alike: dict[tuple, list[str]] = {}
    for one in series:
        columns = [frame[ALONG], frame[COLUMNS], *(row.values[1] for row in rows)]
        points = pd.concat(columns, axis=1).loc[one.rows].dropna().to_numpy().tolist()
        if points:
            alike.setdefault(tuple(sorted(map(tuple, points))), []).append(one.label)
    return [
        f"The marks of {', '.join(hidden)} and {top} coincide: their values are the same."
        for *hidden, top in alike.values()
        if hidden
    ]


def draw_series(
    axes: Axes, frame: pd.DataFrame, series: Sequence[Series], row: Row, here: pd.Series
) -> None:
    lost = frame["status"] == "oom"
    crossed = 0
    for one in series:
        rows = [index for index in one.rows if here.iat[index]]
        x = frame[ALONG].to_numpy()[rows]
        low, median, high = (values.to_numpy(float)[rows] for values in row.values)
        draw_points(axes, one, x, median, low, high, joined=True)
        if lost[rows].any():
            draw_lost(axes, one, x[lost[rows]], crossed)
            crossed += 1


def draw_roof(axes: Axes, frame: pd.DataFrame, roof: pd.Series) -> None:
    """A roofline for each precision, with a label above the highest."""
    ends = {}
    for precision, cases in frame.groupby("precision"):
        points = roof[cases.index].groupby(cases[ALONG]).max().dropna()
        axes.plot(points.index, points, **ROOF)
        ends |= {text(precision): (points.index[-1], points.iloc[-1])} if len(points) else {}
    if ends:
        names = sorted(ends, key=lambda name: -ends[name][1])
        words = f"rooflines: {', '.join(names)}" if len(names) > 1 else "roofline"
        axes.annotate(words, ends[names[0]], (0, 2), textcoords="offset points", ha="right",
                      fontsize=style.TINY, color=style.INK)  # fmt: skip
