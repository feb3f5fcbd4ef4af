"""The figure of one block's forward pass: its scopes, and below them the kernels they launched."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..formatting import figure
from ..layout import Sheet, time_axis
from ..profiles import Profiles, Step, last_step, middle_block
from ..trace_events import name_of

MICROSECONDS = 1e6
WIDTH = 11.0  # inches
HEADING, ROW, AXIS = 0.30, 0.30, 0.58  # inches
KERNEL_GAP = 0.35  # rows between the scopes and the kernels


@dataclass(frozen=True)
class Box:
    """A scope or kernel, in µs since the block began."""

    level: float  # rows from the top
    begin: float
    end: float
    words: str
    operation: str  # empty: a region


@dataclass(frozen=True)
class Panel:
    title: str
    boxes: list[Box]

    @property
    def rows(self) -> float:
        return max(box.level for box in self.boxes) + 1

    @property
    def length(self) -> float:
        return max(box.end for box in self.boxes)

    @property
    def height(self) -> float:
        return HEADING + self.rows * ROW + AXIS


def draw(profiles: Profiles) -> Figure | None:
    """None if no case has a block."""
    found: dict[tuple, Panel] = {}
    for title, case in zip(profiles.results.labels, profiles.timelines, strict=True):
        step = last_step(case)
        root = middle_block(step)
        step = step.within(root)
        if root and step.kernels not in found:
            found[step.kernels] = Panel(f"{title}: {name_of(root)}", boxes_of(step, root))
    if not found:
        return None
    panels = list(found.values())
    colors = style.colors_for(operations(panels))
    sheet = Sheet(
        profiles.results,
        title="One block's forward pass",
        notes=[
            "Rank 0, last profiled step. The lowest row has the kernels, in the colour of their "
            "operation."
        ],
        body=(2 * style.MARGIN + WIDTH, sum(panel.height for panel in panels)),
        legend=style.legend(colors),
    )
    top = sheet.body_top
    for panel in panels:
        note = f"{figure(panel.length, 3)} µs"
        sheet.page.heading(style.MARGIN, top, panel.title, note)
        axes = sheet.page.axes(style.MARGIN, top + HEADING, WIDTH, panel.rows * ROW)
        draw_boxes(axes, panel, colors)
        top += panel.height
    return sheet.figure


def boxes_of(step: Step, root: str) -> list[Box]:
    """The scopes by depth, and below them the kernels."""
    begin = step.scopes["begin"].min()

    def box(row: NamedTuple, level: float, words: str, operation: str) -> Box:
        start, end = ((time - begin) * MICROSECONDS for time in (row.begin, row.end))
        return Box(level, start, end, words, operation)

    boxes = []
    for row in step.scopes.itertuples():
        name = name_of(row.path)
        level = row.path.count("/") - root.count("/")
        boxes.append(box(row, level, name, name if row.operation else ""))
    below = max(one.level for one in boxes) + 1 + KERNEL_GAP
    return boxes + [
        box(row, below, row.short_name, name_of(row.path)) for row in step.activities.itertuples()
    ]


def operations(panels: Iterable[Panel]) -> list[str]:
    """Operations, in descending order of time."""
    boxes = [box for panel in panels for box in panel.boxes if box.operation]
    lengths = pd.Series([box.end - box.begin for box in boxes], dtype=float)
    totals = lengths.groupby([box.operation for box in boxes]).sum()
    return totals.sort_values(ascending=False).index.tolist()


def draw_boxes(axes: Axes, panel: Panel, colors: dict[str, str]) -> None:
    time_axis(axes, panel.length, panel.rows, "time since the block's first kernel (µs)")
    axes.grid(visible=False)
    inch = panel.length / WIDTH
    for box in panel.boxes:
        color = colors.get(box.operation, style.SHADE)
        width = box.end - box.begin
        axes.barh(box.level + 0.5, width, 0.9, box.begin, color=color, ec="white", lw=0.6)
        words = style.shorten(box.words, width / inch - 0.08, style.TINY)
        if len(words) > 2:
            axes.text(
                box.begin + width / 2,
                box.level + 0.5,
                words,
                ha="center",
                va="center_baseline",
                fontsize=style.TINY,
                color=style.on(color),
            )
