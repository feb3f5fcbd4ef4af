"""The figure of the kernels of one block's attention, one case below the other."""

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from .. import style
from ..formatting import figure
from ..layout import Sheet, time_axis
from ..profiles import Profiles, Step, last_step, middle_block

MICROSECONDS = 1e6
ATTENTION = "attention/scaled dot product attention"
WIDTH, BESIDE = 5.8, 3.4  # inches: the axis; the kernels' times and names
HEADING, ROW, GAP, AXIS = 0.28, 0.24, 0.18, 0.5  # inches
BAR = 0.7  # of a row


@dataclass(frozen=True)
class Panel:
    title: str
    kernels: pd.DataFrame  # operation, part, name; begin and end in µs since the first began

    @property
    def length(self) -> float:
        return self.kernels["end"].max()

    @property
    def height(self) -> float:
        return HEADING + len(self.kernels) * ROW + GAP


def draw(profiles: Profiles) -> Figure | None:
    """None if no case has a block with attention."""
    found: dict[tuple, Panel] = {}
    for title, case in zip(profiles.results.labels, profiles.timelines, strict=True):
        step = last_step(case)
        root = f"{middle_block(step)}/{ATTENTION}"
        step = step.within(root)
        if step.kernels and step.kernels not in found:
            found[step.kernels] = Panel(title, kernels_of(step, root))
    if not found:
        return None
    panels = list(found.values())
    kernels = pd.concat([panel.kernels for panel in panels])
    colors = style.colors_for(kernels["part"].unique().tolist())
    labels = style.widest(kernels["operation"].unique(), style.SMALL) + 0.2
    sheet = Sheet(
        profiles.results,
        title="The attention kernels of one block",
        notes=[
            "Rank 0, last profiled step, forward of the middle block. Cases with the same kernels "
            "are shown once."
        ],
        body=(
            2 * style.MARGIN + labels + WIDTH + BESIDE,
            sum(panel.height for panel in panels) + AXIS,
        ),
        legend=style.legend(colors),
    )
    longest = max(panel.length for panel in panels)
    top, left = sheet.body_top, style.MARGIN + labels
    for panel in panels:
        note = f"{figure(panel.length, 3)} µs"
        sheet.page.heading(style.MARGIN, top, panel.title, note)
        axes = sheet.page.axes(left, top + HEADING, WIDTH, len(panel.kernels) * ROW)
        label = "time since the first of them began (µs)" if panel is panels[-1] else ""
        time_axis(axes, longest, len(panel.kernels), label)
        for index, row in enumerate(panel.kernels.itertuples()):
            length = row.end - row.begin
            axes.barh(index + 0.5, length, BAR, row.begin, color=colors[row.part], lw=0)
            middle = top + HEADING + (index + 0.5) * ROW
            sheet.page.text(style.MARGIN, middle, row.operation, va="center_baseline")
            words = f"{figure(length, 3)} µs  {row.short_name}"
            words = style.shorten(words, BESIDE - 0.12)
            beside = left + WIDTH + 0.12
            sheet.page.text(beside, middle, words, va="center_baseline", color=style.INK)
        top += panel.height
    return sheet.figure


def kernels_of(step: Step, root: str) -> pd.DataFrame:
    """Kernels, each with its innermost scope and the part of attention that it belongs to."""
    below = step.activities["path"].str.slice(len(root) + 1).str.split("/")
    begin = step.activities["begin"].min()
    return pd.DataFrame(
        {
            "operation": below.str[-1],
            "part": below.str[0],
            "short_name": step.activities["short_name"],
            "begin": (step.activities["begin"] - begin) * MICROSECONDS,
            "end": (step.activities["end"] - begin) * MICROSECONDS,
        }
    )
