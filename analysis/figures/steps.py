"""The figure of step time: a bar per case, the parts that add up to its median stacked."""

from dataclasses import dataclass
from math import isnan

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import parts, peer_comparison, style
from ..formatting import capitalized, figure, label, text
from ..layout import MANY_ROWS, Panel, Sheet, panels_of, time_unit
from ..results import Results

ROW, BAR = 0.29, 0.66  # inches from bar to bar; a bar's share of that
MAX_WITHOUT_CAPS = 0.06  # inches: caps would hide so short an interval
GROUP_GAP = 0.5  # rows between groups of bars
BARS_WIDTH = 5.6  # inches
AXIS_HEIGHT = 0.58  # inches under the bars: figures, unit, space
OTHER_CASES = {"study", "head_dim", "op"}  # columns of the experiments without steps
COLORS = style.PHASES | {parts.REST: style.OTHER}


@dataclass(frozen=True)
class Bar:
    """One case, in the figure's unit of time; NaN if nothing was measured."""

    phases: list[tuple[str, float]]
    median: float
    low: float
    high: float
    exposed: float  # communication; NaN where nothing is communicated
    status: str
    reason: str

    def label(self, unit: str) -> str:
        """The text beside the bar: the step's median, its exposed communication, and a status that
        is not ok."""
        time = f"{figure(self.median, 3)} {unit}"
        if not isnan(self.exposed):
            time += f", {figure(self.exposed, 2)} {unit} exposed"
        return time if self.status == "ok" else f"{time}, {self.status}"

    @property
    def end(self) -> float:
        ends = [sum(value for _, value in self.phases), self.median, self.high]
        return max((value for value in ends if not isnan(value)), default=0.0)


def draw(results: Results) -> Figure | None:
    """None for experiments whose cases are not steps, and for steps beside other software's."""
    if OTHER_CASES & set(results.frame) or peer_comparison.are_steps(results):
        return None
    panels = panels_of(results)
    # Then panels are in two columns, and segments have no figures.
    many = len(results.frame) > MANY_ROWS
    columns = in_columns(panels) if many else [panels]
    labels_width = max(sum(label_widths(panel)) for panel in panels)
    column_width = labels_width + BARS_WIDTH + style.MARGIN
    height = max(sum(map(panel_height, column)) for column in columns)
    sheet = Sheet(
        results,
        title="Step time by phase",
        notes=[note(results, panels)],
        body=(style.MARGIN + column_width * len(columns), height),
        legend=legend(results),
    )
    unit, scale = time_unit(results.medians)
    for index, column in enumerate(columns):
        left, top = style.MARGIN + index * column_width, sheet.body_top
        for panel in column:
            draw_heading(sheet, panel, left, top)
            draw_labels(sheet, panel, left, top + heading_height(panel))
            axes = sheet.page.axes(
                left + labels_width, top + heading_height(panel), BARS_WIDTH, rows_height(panel)
            )
            bars = [bar_of(results, row, scale) for row in panel.rows]
            draw_bars(axes, panel, bars, unit, with_figures=not many)
            top += panel_height(panel)
    return sheet.figure


def legend(results: Results) -> list[tuple[str, str]]:
    rows = range(len(results.frame))
    found = {part for row in rows for part, seconds in parts.of_row(results, row).items()}
    names = [(label_of(part), color) for part, color in COLORS.items() if part in found]
    return names if len(found) > 1 else []


def label_of(part: str) -> str:
    return "exposed communication" if part == "communication_exposed" else part


def note(results: Results, panels: list[Panel]) -> str:
    few = " (none below 6 steps)" if results.lacks_intervals else ""
    scales = " Each panel has its own scale." if len(panels) > 1 else ""
    return (
        f"{capitalized(results.count('measured steps a case'))}. Black: the median of the step "
        f"with its 95% interval{few}.{scales}"
    )


def bar_of(results: Results, row: int, scale: float) -> Bar:
    values = results.frame.iloc[row]
    seconds = parts.of_row(results, row)
    return Bar(
        phases=[(part, seconds[part] * scale) for part in COLORS if seconds.get(part, 0) > 0],
        median=values["step_median_s"] * scale,
        low=values["step_ci_low_s"] * scale,
        high=values["step_ci_high_s"] * scale,
        exposed=results.statistic("communication_exposed", "median")[row] * scale,
        status=text(values["status"]),
        reason=text(values.get("reason")),
    )


# ---- positions, in inches ---------------------------------------------------------------------


def in_columns(panels: list[Panel]) -> list[list[Panel]]:
    """Two columns of about equal height, in reading order; the left one is the taller."""
    heights = [panel_height(panel) for panel in panels]
    cut = len(panels)
    while sum(heights[: cut - 1]) >= sum(heights[cut - 1 :]):
        cut -= 1
    return [column for column in (panels[:cut], panels[cut:]) if column]


def label_widths(panel: Panel) -> list[float]:
    """The widths of the columns of row labels, each with the gap to its right."""
    columns = zip(*panel.labels, strict=True)
    return [
        max(style.widest(cells), style.text_width(label(name), style.SMALL)) + 0.2
        for name, cells in zip(panel.names, columns, strict=True)
    ]


def positions(panel: Panel) -> list[float]:
    """The positions of the bars, in rows from the top; there are gaps between groups of the first
    label."""
    places, place = [], 0.5
    grouped = len({labels[0] for labels in panel.labels}) < len(panel.labels)
    for index, labels in enumerate(panel.labels):
        if grouped and index and labels[0] != panel.labels[index - 1][0]:
            place += GROUP_GAP
        places.append(place)
        place += 1
    return places


def rows_height(panel: Panel) -> float:
    return (positions(panel)[-1] + 0.5) * ROW


def heading_height(panel: Panel) -> float:
    return (0.30 if panel.title else 0.0) + 0.20


def panel_height(panel: Panel) -> float:
    return heading_height(panel) + rows_height(panel) + AXIS_HEIGHT


# ---- drawing ------------------------------------------------------------------------------------


def draw_heading(sheet: Sheet, panel: Panel, left: float, top: float) -> None:
    if panel.title:
        sheet.page.heading(left, top, panel.title, panel.note)
    top += heading_height(panel) - 0.20
    for name, width in zip(panel.names, label_widths(panel), strict=True):
        sheet.page.text(left, top, label(name))
        left += width


def draw_labels(sheet: Sheet, panel: Panel, left: float, top: float) -> None:
    """Each row's factors in columns; values equal to those of the row above are not repeated."""
    above: list[str] = []
    for place, labels in zip(positions(panel), panel.labels, strict=True):
        at = left
        for index, width in enumerate(label_widths(panel)):
            if labels[: index + 1] != above[: index + 1]:
                sheet.page.text(
                    at,
                    top + place * ROW,
                    labels[index],
                    fontsize=style.TEXT,
                    color=style.INK,
                    va="center_baseline",
                )
            at += width
        above = labels


def draw_bars(axes: Axes, panel: Panel, bars: list[Bar], unit: str, with_figures: bool) -> None:
    axes.set_ylim(rows_height(panel) / ROW, 0)
    words = [bar.label(unit) for bar in bars]
    room = style.widest(words) + 0.25  # inches, to the right of the longest bar
    end = max(bar.end for bar in bars) or 1.0
    axes.set_xlim(0, end * BARS_WIDTH / (BARS_WIDTH - room))
    inch = axes.get_xlim()[1] / BARS_WIDTH
    for place, bar, word in zip(positions(panel), bars, words, strict=True):
        if bar.end > 0:
            draw_segments(axes, place, bar, inch if with_figures else None)
            draw_step(axes, place, bar, inch)
            color = style.INK if bar.status == "ok" else style.ALARM
            axes.text(bar.end + 0.09 * inch, place, word, va="center_baseline", color=color,
                      bbox=style.CLEAR)  # fmt: skip
        else:
            draw_status(axes, place, bar, inch)
    finish(axes, unit, any(bar.end > 0 for bar in bars))


def draw_segments(axes: Axes, place: float, bar: Bar, inch: float | None) -> None:
    """Phases end to end, with their times where there is room (`inch`: time per inch)."""
    if not bar.phases:
        axes.barh(place, bar.median, BAR, color=style.NO_PHASES)
    left = 0.0
    for phase, value in bar.phases:
        axes.barh(place, value, BAR, left, color=COLORS[phase], ec="white", lw=0.6)
        words = figure(value, 3)
        if inch and has_room(bar, left, value, (style.text_width(words, style.SMALL) + 0.1) * inch):
            color = style.on(COLORS[phase])
            axes.text(
                left + value / 2,
                place,
                words,
                ha="center",
                va="center_baseline",
                fontsize=style.SMALL,
                color=color,
            )
        left += value


def has_room(bar: Bar, left: float, value: float, needed: float) -> bool:
    """Whether a figure fits in the middle of a segment, clear of the step's interval."""
    middle = left + value / 2
    low = bar.median if isnan(bar.low) else bar.low
    high = bar.median if isnan(bar.high) else bar.high
    return needed < value and (middle + needed / 2 < low or middle - needed / 2 > high)


def draw_step(axes: Axes, place: float, bar: Bar, inch: float) -> None:
    axes.vlines(bar.median, place - BAR / 2, place + BAR / 2, color=style.INK, lw=1.3)
    if not isnan(bar.low):
        axes.hlines(place, bar.low, bar.high, color=style.INK, lw=1.0)
        if bar.high - bar.low > MAX_WITHOUT_CAPS * inch:
            ends = (place - BAR / 5, place + BAR / 5)
            axes.vlines([bar.low, bar.high], *ends, color=style.INK, lw=1.0)


def draw_status(axes: Axes, place: float, bar: Bar, inch: float) -> None:
    """Writes why a case has no measured step, in place of its bar."""
    end = axes.get_xlim()[1]
    axes.barh(place, end, BAR, color=style.ALARM_PALE, lw=0)
    status = style.STATUS_WORDS.get(bar.status, bar.status)
    axes.text(
        0.09 * inch,
        place,
        status,
        va="center_baseline",
        color=style.ALARM,
        weight="bold",
        fontsize=style.SMALL,
    )
    used = style.text_width(status, style.SMALL, "bold") + 0.18
    reason = style.shorten(bar.reason, end / inch - used - 0.1)
    axes.text(
        used * inch,
        place,
        reason,
        va="center_baseline",
        color=style.ALARM,
        fontsize=style.SMALL,
    )


def finish(axes: Axes, unit: str, measured: bool) -> None:
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.axvline(0, color=style.FAINT, lw=0.8)
    axes.set_yticks([])
    if not measured:
        axes.set_xticks([])
        return
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid(axis="x")
    axes.set_xlabel(f"time per step ({unit})", loc="left")
