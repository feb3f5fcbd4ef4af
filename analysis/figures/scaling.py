"""The figure of weak scaling: the step and its efficiency over the number of ranks."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from .. import scaling_cases, style
from ..formatting import capitalized
from ..layout import Sheet, time_unit
from ..panels import LEFT, OWN_SCALE, Grid, Series, draw_points, legend
from ..results import Results

WIDTH, HEIGHT = 4.6, 2.9  # inches
HEADING_LINE = 0.23
SPREAD = 0.24  # of a doubling of the ranks, between the first and the last of the marks beside it


def draw(results: Results) -> Figure | None:
    """A row of panels for each setting, with a series for each exchange; if no exchange varies, one
    row with a series for each setting. None if no case was measured with several numbers of
    ranks."""
    found = scaling_cases.of(results)
    if not found:
        return None
    exchanges = len({one.exchange for one in found}) > 1
    named = [(one.setting, one.exchange) if exchanges else ("", one.setting) for one in found]
    settings = list(dict.fromkeys(setting for setting, _ in named))
    labels = list(dict.fromkeys(label for _, label in named))
    ranks = sorted({results.frame["ranks"][row] for one in found for row in one.rows})
    headings = [heading_of(setting) for setting in settings]
    grid = Grid(len(settings), 2, WIDTH, HEIGHT, OWN_SCALE, max(map(len, headings)) * HEADING_LINE)
    few = " (none below 6 steps)" if results.lacks_intervals else ""
    sheet = Sheet(
        results,
        title="Weak scaling",
        notes=[
            f"{capitalized(results.count('measured steps a case'))}, the same batch a rank; bars: "
            f"95% intervals{few}."
        ],
        body=grid.body,
        legend=legend([series_of(label, labels, []) for label in labels]),
    )
    unit, scale = time_unit(results.medians)
    low, median, high = (
        results.statistic("step", name).to_numpy() for name in ("ci_low", "median", "ci_high")
    )
    for row, setting in enumerate(settings):
        for number, line in enumerate(headings[row]):
            top = sheet.body_top + row * grid.row_height + number * HEADING_LINE
            sheet.page.heading(style.MARGIN + LEFT, top, line, "")
        time = grid.axes(sheet, row, 0, "Step", f"time ({unit})")
        efficiency = grid.axes(sheet, row, 1, "Efficiency", "% of the fewest ranks' rate a rank")
        for (own, label), one in zip(named, found, strict=True):
            if own != setting:
                continue
            series = series_of(label, labels, one.rows)
            rows, first = one.rows, one.rows[0]
            aside = (labels.index(label) - (len(labels) - 1) / 2) / max(1, len(labels) - 1)
            x = results.frame["ranks"][rows].to_numpy(float) * 2 ** (aside * SPREAD)
            draw_points(
                time, series, x, *(p[rows] * scale for p in (median, low, high)), joined=True
            )
            shares = [100 * median[first] / median[rows], 100 * low[first] / high[rows],
                      100 * high[first] / low[rows]]  # fmt: skip
            shares[1][0] = shares[2][0] = np.nan  # the first is 100% by definition
            draw_points(efficiency, series, x, *shares, joined=True)
        for axes in (time, efficiency):
            finish(axes, ranks)
    return sheet.figure


def heading_of(setting: str) -> list[str]:
    """The lines above a row of panels."""
    return style.wrap(setting, 2 * WIDTH, style.HEAD, "bold") if setting else []


def series_of(label: str, labels: list[str], rows: list[int]) -> Series:
    index = labels.index(label)
    return Series(label, rows, style.SERIES[index % len(style.SERIES)],
                  style.MARKERS[index % len(style.MARKERS)])  # fmt: skip


def finish(axes: Axes, ranks: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlim(ranks[0] / 1.25, ranks[-1] * 1.25)
    axes.xaxis.set_major_locator(FixedLocator(ranks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.05)
    axes.grid(axis="y")
    axes.set_xlabel("ranks")
