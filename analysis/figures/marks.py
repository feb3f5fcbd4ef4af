"""The figure of memory at three marks of the first step, by kind: a panel per case."""

from math import ceil

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
COLUMNS = 2
WIDTH, LABELS, ROW, HEADING, AXIS, GAP = 4.0, 1.25, 0.25, 0.28, 0.45, 0.35  # inches
BAR = 0.7  # of a row


def draw(results: Results) -> Figure | None:
    """None if memory was not recorded."""
    cases = {row: memory_marks.of_row(results, row) for row in range(len(results.frame))}
    cases = {row: marks for row, marks in cases.items() if marks is not None}
    if not cases:
        return None
    shown = f"The {MOST} of {len(cases)} cases with the highest peaks. " * (len(cases) > MOST)
    cases = {row: cases[row] for row in greatest(cases, lambda row: cases[row]["peak"].max())}
    labels = results.labels
    columns = min(COLUMNS, len(cases))
    lines = ceil(len(cases) / columns)
    max_marks = max(map(len, cases.values()))
    pitch = HEADING + max_marks * ROW
    across = LABELS + WIDTH + GAP
    tables = cases.values()
    kinds = [kind for kind in style.KINDS if any(has(marks, kind) for marks in tables)]
    sheet = Sheet(
        results,
        title="Memory at the marks of the first step",
        notes=[f"{shown}In use on the rank with the most; the line: the peak so far."],
        body=(2 * style.MARGIN + columns * across - GAP, lines * (pitch + 0.12) + AXIS),
        legend=[(label(kind), style.KINDS[kind]) for kind in kinds],
    )
    most = max(marks[["active", "peak"]].to_numpy().max() for marks in cases.values()) / GIB
    room = max(style.widest(words_of(marks), style.SMALL) for marks in cases.values()) + 0.2
    for index, (row, marks) in enumerate(cases.items()):
        line, column = divmod(index, columns)
        left = style.MARGIN + column * across
        top = sheet.body_top + line * (pitch + 0.12)
        title = style.shorten(labels[row], LABELS + WIDTH, style.HEAD)
        sheet.page.heading(left, top, title, "")
        axes = sheet.page.axes(left + LABELS, top + HEADING, WIDTH, len(marks) * ROW)
        draw_marks(axes, marks, most / (WIDTH - room))
        for place, mark in enumerate(marks.index):
            middle = top + HEADING + (place + 0.5) * ROW
            sheet.page.text(left, middle, mark, va="center_baseline")
        is_last = index + columns >= len(cases)
        axes.tick_params(labelbottom=is_last)
        if is_last:
            axes.set_xlabel("in use (GiB)", loc="left")
    return sheet.figure


def has(marks: pd.DataFrame, kind: str) -> bool:
    return kind in marks and marks[kind].max() > 0


def words_of(marks: pd.DataFrame) -> list[str]:
    """The text beside each bar."""
    return [f"{figure(active / GIB, 3)}, peak {figure(peak / GIB, 3)}"
            for active, peak in zip(marks["active"], marks["peak"], strict=True)]  # fmt: skip


def draw_marks(axes: Axes, marks: pd.DataFrame, inch: float) -> None:
    """`inch`: GiB per inch of the axis."""
    words = words_of(marks)
    axes.set_xlim(0, WIDTH * inch)
    axes.set_ylim(len(marks), 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    middles = np.arange(len(marks)) + 0.5
    ends = np.zeros(len(marks))
    for kind in [kind for kind in style.KINDS if has(marks, kind)]:
        sizes = marks[kind].to_numpy() / GIB
        axes.barh(middles, sizes, BAR, ends, color=style.KINDS[kind], ec="white", lw=0.4)
        ends = ends + sizes
    peaks = marks["peak"].to_numpy() / GIB
    axes.vlines(peaks, middles - BAR / 2, middles + BAR / 2, color=style.INK, lw=1.2)
    for middle, end, word in zip(middles, np.maximum(ends, peaks), words, strict=True):
        axes.text(end + 0.08 * inch, middle, word,
                  va="center_baseline", fontsize=style.SMALL, bbox=style.CLEAR)  # fmt: skip
