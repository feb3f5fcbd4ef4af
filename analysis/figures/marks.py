"""The figure of memory at three marks of the first step, by kind: a column for each mark."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import memory_marks, style
from ..formatting import figure, label
from ..layout import Sheet
from ..panels import MOST, greatest
from ..results import Results

GIB = 2**30
WIDTH, ROW, HEADING, AXIS, GAP = 2.7, 0.27, 0.28, 0.3, 0.2  # inches
BAR = 0.7  # of a row


def draw(results: Results) -> Figure | None:
    """A row for each case. None if memory was not recorded."""
    cases = {row: memory_marks.of_row(results, row) for row in range(len(results.frame))}
    cases = {row: marks for row, marks in cases.items() if marks is not None}
    if not cases:
        return None
    rows = greatest(cases, lambda row: cases[row]["peak"].max())
    sizes = pd.concat({row: cases[row] for row in rows}).fillna(0) / GIB
    kinds = [kind for kind in style.KINDS if kind in sizes and sizes[kind].max() > 0]
    marks = [mark for mark in memory_marks.MARKS if mark in sizes.index.get_level_values(1)]
    labels = style.widest([results.labels[row] for row in rows]) + 0.15
    many = f"The {MOST} of {len(cases)} cases with the highest peaks. "
    sheet = Sheet(
        results,
        title="Memory at the marks of the first step",
        notes=[many * (len(cases) > MOST) + "On the rank with the most, by the memory ledger."],
        body=(
            2 * style.MARGIN + labels + len(marks) * (WIDTH + GAP) - GAP,
            HEADING + len(rows) * ROW + AXIS,
        ),
        legend=[
            *((label(kind), style.KINDS[kind]) for kind in kinds),
            ("peak so far", style.INK, "|"),
        ],
    )
    top = sheet.body_top + HEADING
    for place, row in enumerate(rows):
        sheet.page.text(
            style.MARGIN, top + (place + 0.5) * ROW, results.labels[row], va="center_baseline",
            fontsize=style.TEXT, color=style.INK,
        )  # fmt: skip
    room = style.text_width(figure(sizes["peak"].max(), 3), style.SMALL) + 0.15
    inch = sizes[["active", "peak"]].to_numpy().max() / (WIDTH - room)
    for column, mark in enumerate(marks):
        left = style.MARGIN + labels + column * (WIDTH + GAP)
        sheet.page.heading(left, sheet.body_top, mark, "GiB")
        axes = sheet.page.axes(left, top, WIDTH, len(rows) * ROW)
        draw_mark(axes, sizes.xs(mark, level=1).reindex(rows), kinds, inch)
    return sheet.figure


def draw_mark(axes: Axes, sizes: pd.DataFrame, kinds: list[str], inch: float) -> None:
    """`sizes`: GiB of each case; `inch`: GiB per inch of the axis."""
    axes.set_xlim(0, WIDTH * inch)
    axes.set_ylim(len(sizes), 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    middles = np.arange(len(sizes)) + 0.5
    ends = sizes[kinds].cumsum(axis=1)
    for kind in kinds:
        left = ends[kind] - sizes[kind]
        axes.barh(middles, sizes[kind], BAR, left, color=style.KINDS[kind], ec="white", lw=0.4)
    axes.vlines(sizes["peak"], middles - BAR / 2, middles + BAR / 2, color=style.INK, lw=1.2)
    for middle, peak in zip(middles, sizes["peak"], strict=True):
        axes.text(peak + 0.06 * inch, middle, figure(peak, 3), va="center_baseline",
                  fontsize=style.SMALL, bbox=style.CLEAR)  # fmt: skip
