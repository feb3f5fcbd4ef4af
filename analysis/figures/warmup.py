"""The figure of every step from cold: the effect of warm-up, and how long it lasts."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from .. import style
from ..formatting import case_label, figure, text
from ..layout import Panel, Sheet, panels_of, time_unit
from ..panels import MOST, greatest
from ..result_file import Samples
from ..results import Results
from ..tables.warmup import longest_of_each_run

PHASE = "step"
# Above this many cases all cells share one axis, of multiples of each case's median.
MAX_WITH_OWN_AXIS = 8
# Above this many ranks colours could not be told apart.
MAX_COLORED_RANKS = len(style.RANKS)
# If the first step is this many times the median, a logarithmic axis keeps the rest readable.
LOGARITHMIC_FROM = 4.0
# Inches around a cell's axes: its title; its figures and unit below; its scale; its median.
TITLE, BELOW_AXES, SCALE, BESIDE = 0.30, 0.42, 0.55, 0.62
PANEL_GAP = 0.14  # inches
HEADROOM = 1.35  # above the steps, and below them on a logarithmic axis, as a factor


@dataclass(frozen=True)
class Axis:
    """The vertical axis, the same in all cells."""

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
    """Cells of equal size, in inches."""

    columns: int
    width: float  # of a cell's axes
    height: float
    own_scales: bool  # else only the first column shows the scale

    @property
    def pitch(self) -> tuple[float, float]:
        """The distance from one cell to the next, across and down."""
        across = self.width + BESIDE + (SCALE if self.own_scales else 0.1)
        return across, self.height + TITLE + BELOW_AXES

    @property
    def page_width(self) -> float:
        beside_last = self.pitch[0] - self.width - BESIDE
        return 2 * style.MARGIN + SCALE + self.columns * self.pitch[0] - beside_last

    def rows(self, panel: Panel) -> int:
        return math.ceil(len(panel.rows) / self.columns)

    def panel_height(self, panel: Panel) -> float:
        return self.rows(panel) * self.pitch[1] + panel_heading(panel) + PANEL_GAP


def panel_heading(panel: Panel) -> float:
    return 0.30 if panel.title else 0.0


def has_warmup(samples: Samples) -> bool:
    return all(
        PHASE in phases and phases[PHASE].size > 0 for phases in (samples.warmup, samples.measured)
    )


def all_steps(samples: Samples) -> np.ndarray:
    """Seconds [rank, step] of every step from the first on."""
    return np.concatenate([samples.warmup[PHASE], samples.measured[PHASE]], axis=1)


def draw(results: Results) -> Figure | None:
    """None if no warm-up was recorded."""
    if not any(map(has_warmup, results.samples)):
        return None
    results = longest_of_each_run(results)
    count = len(results.frame)
    results = results.only(slowest_first(results))
    panels = panels_of(results)
    axis = axis_for(results)
    grid = grid_for(panels, own_scales=not axis.relative)
    sheet = Sheet(
        results,
        title="Step time from cold",
        notes=[
            f"The {MOST} of {count} cases with the slowest first steps." * (count > MOST),
            note(results, axis),
        ],
        body=(grid.page_width, sum(map(grid.panel_height, panels))),
        legend=legend(results),
    )
    top = sheet.body_top
    for panel in panels:
        draw_panel(sheet, results, panel, grid, axis, top)
        top += grid.panel_height(panel)
    return sheet.figure


def slowest_first(results: Results) -> list[int]:
    """The rows whose first step takes longest beside the median."""
    medians = results.frame["step_median_s"].to_numpy()

    def ratio(row: int) -> float:
        samples = results.samples[row]
        return all_steps(samples)[:, 0].max() / medians[row] if has_warmup(samples) else 0.0

    return greatest(range(len(medians)), ratio)


def grid_for(panels: list[Panel], own_scales: bool) -> Grid:
    cases = sum(len(panel.rows) for panel in panels)
    most = max(len(panel.rows) for panel in panels)
    if not own_scales:
        return Grid(even_columns(most, 8), 1.05, 1.0, own_scales)
    columns = even_columns(most, 4)
    if columns <= 2:
        return Grid(columns, 6.0 / columns, 2.6 if cases == 1 else 1.6, own_scales)
    return Grid(columns, 1.7, 1.3, own_scales)


def even_columns(cells: int, most: int) -> int:
    """The number of columns, at most `most`, for which the lines of cells are about equally
    long."""
    return math.ceil(cells / math.ceil(cells / most))


def axis_for(results: Results) -> Axis:
    unit, scale = time_unit(results.frame["step_median_s"])
    medians = results.frame["step_median_s"].to_numpy()
    pairs = zip(results.samples, medians, strict=True)
    ratios = [all_steps(samples) / median for samples, median in pairs if has_warmup(samples)]
    highest = max((steps.max() for steps in ratios), default=1.0)
    lowest = min((steps.min() for steps in ratios), default=1.0)
    relative = len(results.frame) > MAX_WITH_OWN_AXIS
    return Axis(
        relative=relative,
        logarithmic=highest >= LOGARITHMIC_FROM,
        unit=unit,
        scale=scale,
        limits=(lowest / HEADROOM, highest * HEADROOM) if relative else None,
    )


def note(results: Results, axis: Axis) -> str:
    scale = " Each case has its own scale." if not axis.relative and len(results.frame) > 1 else ""
    return f"Shaded: warm-up. Dashed: the median, {results.count('a case')}.{scale}"


def legend(results: Results) -> list[tuple[str, str]]:
    ranks = max(len(samples.measured.get(PHASE, ())) for samples in results.samples)
    if ranks <= 1:
        return []
    if ranks <= MAX_COLORED_RANKS:
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
        left = style.MARGIN + SCALE + column * grid.pitch[0]
        upper = top + line * grid.pitch[1]
        if len(results.frame) > 1:
            sheet.page.text(left, upper + 0.06, case_label(panel.names, labels), color=style.INK)
        axes = sheet.page.axes(left, upper + TITLE, grid.width, grid.height)
        draw_cell(axes, results, row, axis)
        if column == 0:
            axes.set_ylabel(axis.label)
            axes.yaxis.set_label_coords(-0.45 / grid.width, 0.5)
        elif not grid.own_scales:
            axes.tick_params(labelleft=False)
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
    if len(steps) <= MAX_COLORED_RANKS:
        # Ranks mostly coincide: thin lines over thick ones keep each visible.
        for index, rank in enumerate(steps):
            width = 1.1 + 1.2 * (len(steps) - 1 - index)
            axes.plot(numbers, rank, color=style.RANKS[index], lw=width, **dots)
            dots = {}
        return
    axes.plot(numbers, steps.T, color=style.CROWD, lw=0.6)
    axes.plot(numbers, steps.max(axis=0), color=style.INK, lw=1.3, **dots)


def label_ends(axes: Axes, steps: np.ndarray, median: float, factor: float, axis: Axis) -> None:
    """Writes the first step's time above it, and the median beside its line."""
    first = steps[:, 0].max() / factor
    words = f"{figure(first * axis.scale, 3)} {axis.unit}, {change(first / median)}"
    near = {"textcoords": "offset points", "fontsize": style.TINY, "annotation_clip": False}
    # From the left edge of the axes, above the highest of the steps below the words.
    top = steps[:, : 1 + steps.shape[1] // 2].max()
    axes.annotate(words, (-0.6, top), (3, 4), color=style.INK, va="bottom", **near)
    words = f"{figure(median * axis.scale, 3)} {axis.unit}"
    end = (steps.shape[1] - 0.4, median * factor)
    axes.annotate(words, end, (4, 0), color=style.FAINT, va="center", **near)


def change(ratio: float) -> str:
    """ "+4.8%", "+103%"."""
    percent = 100 * (ratio - 1)
    return f"{percent:+,.0f}%" if abs(percent) >= 10 else f"{percent:+.1f}%"


def finish(axes: Axes, steps: np.ndarray, axis: Axis) -> None:
    axes.set_xlim(-0.6, steps.shape[1] - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y")
    if axis.logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(*(axis.limits or (steps.min() / HEADROOM, steps.max() * HEADROOM)))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, axis.limits[1] if axis.limits else steps.max() * HEADROOM)
        axes.yaxis.set_major_locator(MaxNLocator(4))
    mark = "×" if axis.relative else ""
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}{mark}")
