"""The figure of step time: a bar per case, the parts that add up to its median stacked."""

from dataclasses import dataclass
from math import isnan

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .. import parts, peer_comparison, style
from ..formatting import capitalized, figure, text
from ..labelled_rows import HEADING, ROW, WIDTH, Columns
from ..layout import Panel, Sheet, panels_of, time_unit
from ..panels import MOST, greatest, plain
from ..results import Results

BAR = 0.66  # of a row
AXIS = 0.58  # inches under the bars: figures, unit, space
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
        is not ok; empty if nothing was measured."""
        if not self.end:
            return ""
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
    every = panels_of(results)
    slowest = [results.medians[panel.rows].max() for panel in every]
    panels = [every[index] for index in greatest(range(len(every)), slowest.__getitem__)]
    unit, scale = time_unit(results.medians)
    bars = {row: bar_of(results, row, scale) for panel in panels for row in panel.rows}
    columns = Columns.of(
        [one for panel in panels for one in panel.labels],
        [bar.label(unit) for bar in bars.values()],
    )
    few = " (none below 6 steps)" if results.lacks_intervals else ""
    sheet = Sheet(
        results,
        title="Step time by phase",
        notes=[
            f"The {MOST} of {len(every)} panels with the slowest steps." * (len(every) > MOST),
            f"{capitalized(results.count('measured steps a case'))}. Black: the median of the step "
            f"with its 95% interval{few}.",
            "Each panel has its own scale." * (len(panels) > 1),
        ],
        body=(columns.width, sum(heading(one) + len(one.rows) * ROW + AXIS for one in panels)),
        legend=legend(results),
    )
    top = sheet.body_top
    for panel in panels:
        if panel.title:
            sheet.page.heading(style.MARGIN, top, panel.title, panel.note)
        own = [bars[row] for row in panel.rows]
        words = [bar.label(unit) for bar in own]
        axes = columns.axes(sheet, top + heading(panel), panel.labels, words)
        draw_bars(axes, own, unit)
        top += heading(panel) + len(own) * ROW + AXIS
    return sheet.figure


def heading(panel: Panel) -> float:
    return HEADING if panel.title else 0.0


def legend(results: Results) -> list[tuple[str, str]]:
    rows = range(len(results.frame))
    found = {part for row in rows for part, seconds in parts.of_row(results, row).items()}
    names = [(label_of(part), color) for part, color in COLORS.items() if part in found]
    return names if len(found) > 1 else []


def label_of(part: str) -> str:
    return "exposed communication" if part == "communication_exposed" else part


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


def draw_bars(axes: Axes, bars: list[Bar], unit: str) -> None:
    end = 1.02 * max(bar.end for bar in bars) or 1.0
    inch = end / WIDTH
    axes.set_xlim(0, end)
    axes.spines["bottom"].set_visible(False)
    axes.axvline(0, color=style.FAINT, lw=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(plain)
    axes.set_xlabel(f"time per step ({unit})", loc="left")
    for index, bar in enumerate(bars):
        place = index + 0.5
        if not bar.end:
            draw_status(axes, place, bar, inch)
            continue
        draw_segments(axes, place, bar, inch)
        axes.vlines(bar.median, place - BAR / 2, place + BAR / 2, color=style.INK, lw=1.3)
        axes.hlines(place, bar.low, bar.high, color=style.INK, lw=1.0)


def draw_segments(axes: Axes, place: float, bar: Bar, inch: float) -> None:
    """Phases end to end, with their times where there is room (`inch`: time per inch)."""
    if not bar.phases:
        axes.barh(place, bar.median, BAR, color=style.NO_PHASES)
    left = 0.0
    words = {"ha": "center", "va": "center_baseline", "fontsize": style.SMALL}
    for phase, value in bar.phases:
        color = COLORS[phase]
        axes.barh(place, value, BAR, left, color=color, ec="white", lw=0.6)
        told = figure(value, 3)
        if has_room(bar, left, value, (style.text_width(told, style.SMALL) + 0.1) * inch):
            axes.text(left + value / 2, place, told, color=style.on(color), **words)
        left += value


def has_room(bar: Bar, left: float, value: float, needed: float) -> bool:
    """Whether a figure fits in the middle of a segment, clear of the step's interval."""
    middle = left + value / 2
    low = bar.median if isnan(bar.low) else bar.low
    high = bar.median if isnan(bar.high) else bar.high
    return needed < value and (middle + needed / 2 < low or middle - needed / 2 > high)


def draw_status(axes: Axes, place: float, bar: Bar, inch: float) -> None:
    """Writes why a case has no measured step, in place of its bar."""
    axes.barh(place, WIDTH * inch, BAR, color=style.ALARM_PALE, lw=0)
    words = {"va": "center_baseline", "color": style.ALARM, "fontsize": style.SMALL}
    status = style.STATUS_WORDS.get(bar.status, bar.status)
    axes.text(0.09 * inch, place, status, weight="bold", **words)
    used = style.text_width(status, style.SMALL, "bold") + 0.18
    axes.text(used * inch, place, style.shorten(bar.reason, WIDTH - used - 0.1), **words)
