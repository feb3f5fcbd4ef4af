"""The figure of a step on its streams: one case below the other, on one time axis."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import intervals, style
from ..formatting import figure
from ..layout import Sheet, time_axis
from ..profiles import Profiles, Step, last_step
from ..timeline import overlap_fraction, times
from ..trace_events import name_of

MILLISECONDS = 1e3
LABELS, WIDTH = 1.75, 8.2  # inches: of the streams' names; of the axis
HEADING, ROW, GAP = 0.28, 0.26, 0.16  # inches
AXIS = 0.5  # inches below the last case
BAR = 0.72  # of a row
# Gaps narrower than this fraction of the axis are invisible: intervals around them are merged.
FINEST = 1 / 2000
COLORS = style.PHASES | style.COLLECTIVES | {"other": style.OTHER}


@dataclass(frozen=True)
class Row:
    """A stream: its work by phase or collective, in ms [n, 2] since the step's first kernel."""

    label: str
    bars: dict[str, np.ndarray]


@dataclass(frozen=True)
class Panel:
    title: str
    note: str
    rows: list[Row]
    length: float  # ms

    @property
    def height(self) -> float:
        return HEADING + len(self.rows) * ROW + GAP


def draw(profiles: Profiles) -> Figure:
    hidden = [overlap_fraction(case) for case in profiles.timelines]
    steps = [last_step(case) for case in profiles.timelines]
    panels = list(map(panel_of, profiles.results.labels, steps, hidden))
    notes = ["Rank 0, the last profiled step."]
    if not np.isnan(hidden).all():
        notes[0] += " Hidden: while a compute kernel runs on another stream."
    words = {word for panel in panels for row in panel.rows for word in row.bars}
    sheet = Sheet(
        profiles.results,
        title="A step on its streams",
        notes=notes,
        body=(2 * style.MARGIN + LABELS + WIDTH, sum(panel.height for panel in panels) + AXIS),
        legend=[(word, color) for word, color in COLORS.items() if word in words],
    )
    longest = max(panel.length for panel in panels)
    top = sheet.body_top
    for panel in panels:
        sheet.page.heading(style.MARGIN, top, panel.title, panel.note)
        for index, row in enumerate(panel.rows):
            middle = top + HEADING + (index + 0.5) * ROW
            sheet.page.text(style.MARGIN, middle, row.label, va="center_baseline")
        height = len(panel.rows) * ROW
        axes = sheet.page.axes(style.MARGIN + LABELS, top + HEADING, WIDTH, height)
        label = "time since the step's first kernel (ms)" if panel is panels[-1] else ""
        time_axis(axes, longest, len(panel.rows), label)
        draw_rows(axes, panel.rows, longest)
        top += panel.height
    return sheet.figure


def panel_of(title: str, step: Step, hidden: float) -> Panel:
    activities = step.activities
    begin, end = activities["begin"].min(), activities["end"].max()
    length = (end - begin) * MILLISECONDS
    rows = []
    keys = zip(activities["path"], activities["communication"], strict=True)
    activities = activities.assign(word=[word_of(*key) for key in keys])
    for stream, of_stream in activities.groupby("stream"):
        bars = {
            word: (times(of_word) - begin) * MILLISECONDS
            for word, of_word in of_stream.groupby("word")
        }
        rows.append(Row(f"{role(of_stream)} (stream {stream})", bars))
    note = f"{figure(length, 3)} ms"
    if not np.isnan(hidden):
        note += f", {hidden:.0%} of communication hidden"
    return Panel(title, note, rows, length)


def word_of(path: str, communication: bool) -> str:
    """The name of a collective; the phase of any other kernel."""
    word = name_of(path) if communication else path.partition("/")[0]
    return word if word in COLORS else "other"


def role(of_stream: pd.DataFrame) -> str:
    """The kind of work that takes most of a stream's time."""
    seconds = (of_stream["end"] - of_stream["begin"]).groupby(of_stream["communication"]).sum()
    return "communication" if seconds.idxmax() else "compute"


def draw_rows(axes: Axes, rows: list[Row], longest: float) -> None:
    gap = longest * FINEST
    for index, row in enumerate(rows):
        for word, bars in row.bars.items():
            begin, end = bars.T
            begin, end = intervals.union(np.column_stack([begin, end + gap])).T
            drawn = list(zip(begin, end - gap - begin, strict=True))
            axes.broken_barh(drawn, (index + (1 - BAR) / 2, BAR), color=COLORS[word], lw=0)
