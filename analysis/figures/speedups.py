"""The figure of speed-ups: each pair of cases on one time axis, with their ratio beside it."""

from itertools import groupby
from math import isnan

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import pairs, peer_comparison, style
from ..formatting import figure, label
from ..labelled_rows import HEADING, ROW, Columns
from ..layout import Sheet, time_unit
from ..pairs import Pair
from ..panels import span_axis
from ..results import Results

AXIS = 0.5  # inches under the rows: figures, the axis' label, space


def draw(results: Results) -> Figure | None:
    """None if no factor with a baseline varies; `attention` has curves instead, and steps beside
    other software's have a figure of their own."""
    if "head_dim" in results.frame or peer_comparison.are_steps(results):
        return None
    measured = [
        pair
        for pair in pairs.of(results)
        if not results.medians[[pair.baseline, pair.other]].isna().any()
    ]
    if not measured:
        return None
    panels = [(factor, list(group)) for factor, group in groupby(measured, lambda p: p.factor)]
    unit, scale = time_unit(results.medians)
    words = {id(pair): times(results, pair, unit, scale) for pair in measured}
    columns = Columns.of([pair.label for pair in measured], list(words.values()))
    height = sum(len(rows) * ROW + HEADING + AXIS for _, rows in panels)
    sheet = Sheet(
        results,
        title=f"Speed-up of the {results.headline}",
        notes=["Medians with 95% intervals; in brackets the ratios of their opposite ends."],
        body=(columns.width, height),
        legend=legend(measured),
    )
    ends = extent(results, measured) * scale
    top = sheet.body_top
    for factor, rows in panels:
        sheet.page.heading(style.MARGIN, top, label(factor), f"over {rows[0].labels[0]}")
        axes = columns.axes(
            sheet, top + HEADING, [pair.label for pair in rows], [words[id(pair)] for pair in rows]
        )
        span_axis(axes, ends.min(), ends.max(), "time", unit)
        for index, pair in enumerate(rows):
            draw_pair(axes, results, pair, index + 0.5, scale, colors_of(measured))
        top += len(rows) * ROW + HEADING + AXIS
    return sheet.figure


def extent(results: Results, measured: list[Pair]) -> np.ndarray:
    """The medians and the ends of the intervals of these pairs."""
    rows = [row for pair in measured for row in (pair.baseline, pair.other)]
    names = ("median", "ci_low", "ci_high")
    found = np.array([results.statistic(results.headline, name)[rows] for name in names])
    return found[~np.isnan(found)]


def colors_of(measured: list[Pair]) -> dict[str, str]:
    """Baselines are grey; the other values have colours."""
    others = list(dict.fromkeys(pair.labels[1] for pair in measured))
    baselines = dict.fromkeys((pair.labels[0] for pair in measured), style.OTHER)
    return baselines | style.colors_for(others)


def legend(measured: list[Pair]) -> list[tuple[str, str, str]]:
    return [(name, color, "o") for name, color in colors_of(measured).items()]


def times(results: Results, pair: Pair, unit: str, scale: float) -> str:
    before, after = (figure(results.medians[row] * scale, 3) for row in (pair.baseline, pair.other))
    found = pairs.ratio(results, pair, results.headline)
    words = f"{before} → {after} {unit}, {found.value:.2f}×"
    return words if isnan(found.low) else f"{words} [{found.low:.2f}, {found.high:.2f}]"


def draw_pair(
    axes: Axes, results: Results, pair: Pair, place: float, scale: float, colors: dict[str, str]
) -> None:
    rows = (pair.baseline, pair.other)
    axes.hlines(place, *(results.medians[row] * scale for row in rows), color=style.GRID, lw=2.4)
    for row, name in zip(rows, pair.labels, strict=True):
        ends = [results.statistic(results.headline, end)[row] * scale
                for end in ("ci_low", "ci_high")]  # fmt: skip
        axes.hlines(place, *ends, color=colors[name], lw=2.2)
        axes.plot(results.medians[row] * scale, place, "o", ms=5, color=colors[name])
