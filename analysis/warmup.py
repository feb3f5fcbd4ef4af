"""The figure of every step from cold: what warming up changes, and for how long."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from analysis import style
from analysis.layout import Panel, Sheet, panels_of, time_unit
from analysis.results import Results, Samples
from analysis.words import case_label, figure, text

PHASE = "step"
# Above this many cases all cells share one axis, of multiples of each case's median.
MOST_WITH_OWN_AXIS = 8
MANY_CASES = 16
# Above this many ranks colours would not tell them apart.
MOST_COLORED_RANKS = len(style.RANKS)
# A first step this many times the median needs a logarithmic axis to leave the rest readable.
LOGARITHMIC_FROM = 4.0
TOP, BOTTOM, LEFT, GAP = 0.30, 0.42, 0.55, 0.22  # inches around a cell's axes
PANEL_GAP = 0.14  # inches
BELOW, ABOVE = 2.0, 1.35  # room for labels on a logarithmic axis, as factors


@dataclass(frozen=True)
class Axis:
    """The vertical axis, alike in all cells."""

    relative: bool
    logarithmic: bool
    unit: str
    scale: float  # of the unit to a second

    limits: tuple[float, float] | None  # shared by all cells where they are relative

    @property
    def label(self) -> str:
        what = "× median" if self.relative else self.unit
        return f"{what} (log scale)" if self.logarithmic else what


@dataclass(frozen=True)
class Grid:
    """Cells of one size, in inches."""

    columns: int
    width: float  # of a cell, its margins included
    height: float

    def rows(self, panel: Panel) -> int:
        return math.ceil(len(panel.rows) / self.columns)

    def panel_height(self, panel: Panel) -> float:
        return self.rows(panel) * self.height + panel_heading(panel) + PANEL_GAP


def panel_heading(panel: Panel) -> float:
    return 0.30 if panel.title else 0.0


def recorded(results: Results) -> bool:
    return any(has_warmup(samples) for samples in results.samples)


def has_warmup(samples: Samples) -> bool:
    return all(
        PHASE in phases and phases[PHASE].size > 0 for phases in (samples.warmup, samples.measured)
    )


def all_steps(samples: Samples) -> np.ndarray:
    """Seconds [rank, step] of every step from the first on."""
    return np.concatenate([samples.warmup[PHASE], samples.measured[PHASE]], axis=1)


def draw(results: Results) -> Figure:
    panels = panels_of(results)
    grid = grid_for(panels)
    axis = axis_for(results)
    sheet = Sheet(
        results,
        title="Step time from cold",
        notes=[note(axis)],
        body=(2 * style.MARGIN + grid.columns * grid.width, sum(map(grid.panel_height, panels))),
        legend=legend(results),
    )
    top = sheet.body_top
    for panel in panels:
        draw_panel(sheet, results, panel, grid, axis, top)
        top += grid.panel_height(panel)
    return sheet.figure


def grid_for(panels: list[Panel]) -> Grid:
    cases = sum(len(panel.rows) for panel in panels)
    most = max(len(panel.rows) for panel in panels)
    if cases > MANY_CASES:
        return Grid(even_columns(most, 8), width=1.75, height=1.75)
    columns = even_columns(most, 4)
    if columns <= 2:
        return Grid(columns, width=7.6 / columns, height=3.4 if cases == 1 else 2.4)
    return Grid(columns, width=2.6, height=2.1)


def even_columns(cells: int, most: int) -> int:
    """At most `most` columns, so that lines of cells are about equally long."""
    return math.ceil(cells / math.ceil(cells / most))


def axis_for(results: Results) -> Axis:
    unit, scale = time_unit(results.frame["step_median_s"])
    medians = results.frame["step_median_s"].to_numpy()
    pairs = zip(results.samples, medians, strict=True)
    ratios = [all_steps(samples) / median for samples, median in pairs if has_warmup(samples)]
    highest = max((steps.max() for steps in ratios), default=1.0)
    lowest = min((steps.min() for steps in ratios), default=1.0)
    relative = len(results.frame) > MOST_WITH_OWN_AXIS
    return Axis(
        relative=relative,
        logarithmic=highest >= LOGARITHMIC_FROM,
        unit=unit,
        scale=scale,
        limits=(lowest / BELOW, highest * ABOVE) if relative else None,
    )


def note(axis: Axis) -> str:
    figures = " Beside the first step: its time, and how many medians that is."
    scale = "" if axis.relative else " Each case has a scale of its own."
    return (
        "Step 0 is the rehearsal: the first step from cold. Shaded: warm-up, which no statistic "
        f"counts. Dashed: the median of the measured steps.{figures}{scale}"
    )


def legend(results: Results) -> list[tuple[str, str]]:
    ranks = max(len(samples.measured.get(PHASE, ())) for samples in results.samples)
    if ranks <= 1:
        return []
    if ranks <= MOST_COLORED_RANKS:
        return [(f"rank {rank}", style.RANKS[rank]) for rank in range(ranks)]
    return [("slowest rank", style.INK), ("every other rank", style.CROWD)]


def draw_panel(
    sheet: Sheet, results: Results, panel: Panel, grid: Grid, axis: Axis, top: float
) -> None:
    if panel.title:
        sheet.page.heading(style.MARGIN, top, panel.title, panel.note)
    top += panel_heading(panel)
    for index, (row, labels) in enumerate(zip(panel.rows, panel.labels, strict=True)):
        line, column = divmod(index, grid.columns)
        left, upper = style.MARGIN + column * grid.width + LEFT, top + line * grid.height
        if len(results.frame) > 1:
            sheet.page.text(left, upper + 0.06, case_label(panel.names, labels), color=style.INK)
        axes = sheet.page.axes(
            left, upper + TOP, grid.width - LEFT - GAP, grid.height - TOP - BOTTOM
        )
        draw_cell(axes, results, row, axis)
        if column == 0:
            axes.set_ylabel(axis.label)
            axes.yaxis.set_label_coords(-0.45 / (grid.width - LEFT - GAP), 0.5)
        if index + grid.columns >= len(panel.rows):
            axes.set_xlabel("step")


def draw_cell(axes: Axes, results: Results, row: int, axis: Axis) -> None:
    samples, values = results.samples[row], results.frame.iloc[row]
    median = values["step_median_s"]
    if not has_warmup(samples):
        draw_nothing(axes, text(values["status"]))
        return
    factor = 1 / median if axis.relative else axis.scale
    steps = all_steps(samples) * factor
    axes.axvspan(-0.6, samples.warmup[PHASE].shape[1] - 0.5, color=style.SHADE, lw=0, zorder=0)
    axes.axhline(median * factor, color=style.FAINT, lw=0.8, ls=(0, (4, 3)))
    draw_ranks(axes, steps)
    label_ends(axes, steps, median, factor, axis)
    finish(axes, steps, axis)


def draw_nothing(axes: Axes, status: str) -> None:
    axes.set_axis_off()
    axes.add_patch(Rectangle((0, 0), 1, 1, transform=axes.transAxes, color=style.ALARM_PALE, lw=0))
    words = style.STATUS_WORDS.get(status, "not recorded" if status == "ok" else status)
    place = {"transform": axes.transAxes, "ha": "center", "va": "center"}
    axes.text(0.5, 0.5, words, color=style.ALARM, weight="bold", fontsize=style.SMALL, **place)


def draw_ranks(axes: Axes, steps: np.ndarray) -> None:
    numbers = np.arange(steps.shape[1])
    dots = {"marker": "o", "ms": 2.6} if len(numbers) <= 40 else {}
    if len(steps) <= MOST_COLORED_RANKS:
        # Ranks mostly coincide: thin lines over thick ones, so that each is seen.
        for index, rank in enumerate(steps):
            width = 1.1 + 1.6 * (len(steps) - 1 - index)
            axes.plot(numbers, rank, color=style.RANKS[index], lw=width, **dots)
            dots = {}
        return
    axes.plot(numbers, steps.T, color=style.CROWD, lw=0.6)
    axes.plot(numbers, steps.max(axis=0), color=style.INK, lw=1.3, **dots)


def label_ends(axes: Axes, steps: np.ndarray, median: float, factor: float, axis: Axis) -> None:
    """The first step's time beside it, and the median below the last steps."""
    first = steps[:, 0].max() / factor
    words = f"{figure(first * axis.scale, 3)} {axis.unit}, {figure(first / median, 2)}×"
    near = {"textcoords": "offset points", "fontsize": style.TINY}
    axes.annotate(words, (0, first * factor), (5, 0), va="center", color=style.INK, **near)
    words = f"{figure(median * axis.scale, 3)} {axis.unit}"
    last = (steps.shape[1] - 1, min(median * factor, steps[:, -3:].min()))
    axes.annotate(words, last, (0, -4), ha="right", va="top", color=style.FAINT, **near)


def finish(axes: Axes, steps: np.ndarray, axis: Axis) -> None:
    axes.set_xlim(-0.6, steps.shape[1] - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y")
    if axis.logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(*(axis.limits or (steps.min() / BELOW, steps.max() * ABOVE)))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, axis.limits[1] if axis.limits else steps.max() * 1.15)
        axes.yaxis.set_major_locator(MaxNLocator(4))
    mark = "×" if axis.relative else ""
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}{mark}")
